"""Valid replies for many rows: a row function for any engine, and a provider's batch files."""

from strictreply.batch._file_run import FileRun
from strictreply.batch._provider_files import FileCounts, validate_files
from strictreply.batch._results import COLUMNS, ROW_CODES, STATUSES, RowFault, RowResult
from strictreply.batch._rows import DEFAULT_POLICY, Rows, RowStream, rows

__all__ = [
    "COLUMNS",
    "DEFAULT_POLICY",
    "ROW_CODES",
    "STATUSES",
    "FileCounts",
    "FileRun",
    "RowFault",
    "RowResult",
    "RowStream",
    "Rows",
    "rows",
    "validate_files",
]
