"""The same guard over many rows: a row function for any engine, and a provider's batch files."""

from strictreply.batch._provider_files import FileCounts, judge_files
from strictreply.batch._results import COLUMNS, ROW_CODES, STATUSES, RowFault, RowResult
from strictreply.batch._rows import PATIENT, Rows, RowStream, rows

__all__ = [
    "COLUMNS",
    "PATIENT",
    "ROW_CODES",
    "STATUSES",
    "FileCounts",
    "RowFault",
    "RowResult",
    "RowStream",
    "Rows",
    "judge_files",
    "rows",
]
