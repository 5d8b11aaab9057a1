"""Re-asking one call only: finding the call that failed, freezing the rest, and splicing its new arguments in.

When nothing but the arguments of one call is wrong, its valid siblings are kept as they are; the model is asked for
that call alone, and one well-formed message comes back under the original ids (design, rules of a correction, 2).
"""

from __future__ import annotations

from dataclasses import dataclass

from strictreply.contract._contract import Contract
from strictreply.contract._judge_text import named_tool
from strictreply.values._issues import Code, Issue, pointer_tokens, quote
from strictreply.values._json import JSON, JSONObject
from strictreply.values._replies import Invalid
from strictreply.wires._chat import peek

_NATIVE_DEPTH = 4  # tool_calls, index, function, arguments
_ARGUMENT_CODES = ("args.", "json.")


@dataclass(frozen=True, slots=True)
class Scope:
    """One call whose arguments are wrong, and the message it is part of.

    ``index`` counts among the message's calls, ``at`` is the pointer to the arguments, ``tool`` a declared name.
    """

    tool: str
    index: int
    at: str
    message: JSONObject
    issues: tuple[Issue, ...]


def scope_of(contract: Contract, message: JSONObject, issues: tuple[Issue, ...]) -> Scope | None:
    """Find the one call that all faults lie in; None when there is none, or it cannot be asked for alone."""
    places = {_arguments_place(contract, issue) for issue in issues}
    if len(places) != 1:
        return None
    at = places.pop()
    tokens = pointer_tokens(at or "")
    index = int(tokens[1]) if len(tokens) == _NATIVE_DEPTH else 0  # in the text channel there is one call
    tool = _tool_name(contract, message, index)
    return None if at is None or tool is None else Scope(tool, index, at, message, issues)


def splice(contract: Contract, scope: Scope, message: JSONObject) -> JSONObject | Invalid:
    """Put the arguments of the re-asked call into the frozen message under its original id.

    Return ``tool.switched`` when the reply is not one call of the same tool (requirement T29).
    """
    if contract.channel == "text":
        named = named_tool(contract, message)
        return message if named in {None, scope.tool} else _switched(scope, named)
    calls = peek(message, "tool_calls")
    function = peek(calls[0], "function") if isinstance(calls, list) and len(calls) == 1 else None
    name, arguments = peek(function, "name"), peek(function, "arguments")
    if name != scope.tool:
        return _switched(scope, name)
    frozen = [dict(call) for call in scope.message["tool_calls"]]
    frozen[scope.index] |= {"function": {"name": scope.tool, "arguments": arguments}}
    return scope.message | {"tool_calls": frozen}


def _switched(scope: Scope, found: object) -> Invalid:
    return Invalid((Issue.of(Code.TOOL_SWITCHED, scope.at, name=scope.tool, found=quote(found)),))


def _arguments_place(contract: Contract, issue: Issue) -> str | None:
    """Return the pointer to the arguments that a fault lies in, None when it lies elsewhere."""
    if not issue.code.startswith(_ARGUMENT_CODES):
        # a fault of the shape that says the arguments are no object is a fault of the arguments, too
        ending = "/args" if contract.channel == "text" else "/function/arguments"
        is_about_args = issue.code == str(Code.SHAPE_WRONG_TYPE) and issue.path.endswith(ending)
        return issue.path if is_about_args else None
    tokens = pointer_tokens(issue.path)
    if contract.channel == "text":
        return "/args" if tokens[:1] == ["args"] else None
    if tokens[:1] == ["tool_calls"] and tokens[2:_NATIVE_DEPTH] == ["function", "arguments"]:
        return "/" + "/".join(tokens[:_NATIVE_DEPTH])
    return None


def _tool_name(contract: Contract, message: JSONObject, index: int) -> str | None:
    if contract.channel == "text":
        named = named_tool(contract, message)
        return named if named in contract.by_name else None
    calls: JSON = message.get("tool_calls")
    name = peek(peek(calls[index], "function"), "name") if isinstance(calls, list) and index < len(calls) else None
    return name if isinstance(name, str) and name in contract.by_name else None
