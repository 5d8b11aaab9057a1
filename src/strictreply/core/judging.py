"""Judging without a client: checks of tools and answers, and texts of a contract."""

from strictreply.contract._channels import args_shape, callable_tools, union_schema
from strictreply.contract._contract import ContractKeywords, aperform_check, check_of, perform_check
from strictreply.contract._jsonable import NotJSON, jsonable
from strictreply.contract._models import Findings, check_issues
from strictreply.contract._quarantine import by_name
from strictreply.reading._decoding import extract, is_json
from strictreply.reading._incremental import IncrementalReader
from strictreply.values._limits import (
    MAX_JSON_DEPTH,
    MAX_NUMBER_DIGITS,
)

__all__ = [
    "MAX_JSON_DEPTH",
    "MAX_NUMBER_DIGITS",
    "ContractKeywords",
    "Findings",
    "IncrementalReader",
    "NotJSON",
    "aperform_check",
    "args_shape",
    "by_name",
    "callable_tools",
    "check_issues",
    "check_of",
    "extract",
    "is_json",
    "jsonable",
    "perform_check",
    "union_schema",
]
