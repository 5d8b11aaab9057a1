"""The same guard over many rows: a row function for any engine, and the batch files of a provider."""

from strictreply.batch._results import COLUMNS, STATUSES, RowResult
from strictreply.batch._rows import PATIENT, Rows, RowStream, rows

__all__ = ["COLUMNS", "PATIENT", "STATUSES", "RowResult", "RowStream", "Rows", "rows"]
