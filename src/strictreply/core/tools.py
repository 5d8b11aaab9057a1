"""Tools: reading a declaration, checking that it can be executed, and calling in two steps."""

from strictreply.contract._tool import (
    begin_call,
    finish_call,
    must_be_awaited,
    refuse_unrunnable,
    refuse_without_context,
    takes_context,
    tools_of,
    with_arguments,
    with_schema_rules,
    written_arguments,
)

__all__ = [
    "begin_call",
    "finish_call",
    "must_be_awaited",
    "refuse_unrunnable",
    "refuse_without_context",
    "takes_context",
    "tools_of",
    "with_arguments",
    "with_schema_rules",
    "written_arguments",
]
