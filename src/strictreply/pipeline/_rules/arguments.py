"""The arguments of a call in a manifest: read as those of a reply are, and held to the same Tool (P62, T27)."""

from __future__ import annotations

from collections.abc import Mapping

from strictreply.contract._judge_call import args_shape
from strictreply.contract._tool import Tool
from strictreply.reading._decoding import decode
from strictreply.values._issues import Issue
from strictreply.values._json import JSONObject
from strictreply.values._replies import Invalid


def read_arguments(text: object, tool: Tool | None = None, *, at: str) -> JSONObject | Invalid:
    """Read the JSON object that a call's arguments spell.

    An empty text means no arguments for a ``tool`` that requires none, as in a reply. ``at`` is the JSON Pointer of the
    text; the issues go on from it.
    """
    if tool is not None and text == "" and not tool.parameters.check({}):
        return {}
    args = decode(text, at=at, names=tool.parameters.names if tool else frozenset())
    if isinstance(args, Invalid | dict):
        return args
    return Invalid((args_shape(args, at),))


def schema_issues(text: object, tool: Tool, *, at: str) -> tuple[Issue, ...]:
    """Hold arguments to the schema of their tool; none for a text that cannot be read."""
    args = read_arguments(text, tool, at=at)
    return () if isinstance(args, Invalid) else tool.parameters.check(args, at=at)


def tool_named(name: str | None, tools: Mapping[str, Tool] | None) -> Tool | None:
    """Look a tool up by its name; None when it is not declared."""
    return None if name is None or tools is None else tools.get(name)
