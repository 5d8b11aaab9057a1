"""Re-asking some calls only: finding those that failed, freezing the rest, and splicing their new arguments in.

When nothing but the arguments of calls is wrong, their valid siblings are kept as they are; the model is asked for the
faulty calls alone, and one well-formed message comes back under the original ids (design, rules of a correction, 2).
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
class ScopedCall:
    """One call that is asked for again: a declared tool, its index among the message's calls, where its arguments are.

    ``at`` is the pointer to the arguments.
    """

    tool: str
    index: int
    at: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The calls of a message that are asked for again; everything else in the message stays as it is."""

    message: JSONObject
    issues: tuple[Issue, ...]
    calls: tuple[ScopedCall, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of the calls, each as often as it is called."""
        return tuple(call.tool for call in self.calls)

    @property
    def name(self) -> str:
        """What is asked for again, in our words: the tools, each once."""
        return ", ".join(dict.fromkeys(self.tools))

    @property
    def only(self) -> ScopedCall | None:
        """The one call; None when there are several."""
        return self.calls[0] if len(self.calls) == 1 else None


def scope_of(contract: Contract, message: JSONObject, issues: tuple[Issue, ...]) -> Scope | None:
    """Find the calls whose arguments all faults lie in; None when a fault lies elsewhere."""
    places = dict.fromkeys(_arguments_place(contract, issue) for issue in issues)
    calls = [None if at is None else _scoped_call(contract, message, at) for at in places]
    found = sorted((call for call in calls if call is not None), key=lambda call: call.index)
    return Scope(message, issues, tuple(found)) if found and len(found) == len(calls) else None


def splice(contract: Contract, scope: Scope, message: JSONObject) -> JSONObject | Invalid:
    """Put the arguments of the re-asked calls into the frozen message under their original ids.

    Return ``tool.switched`` when the reply is not as many calls of the same tools (requirement T29). Calls of one tool
    are taken in their order.
    """
    if contract.channel == "text":
        named = named_tool(contract, message)
        return message if named in {None, scope.calls[0].tool} else _switched(scope, named)
    calls = peek(message, "tool_calls")
    functions = [peek(call, "function") for call in calls] if isinstance(calls, list) else []
    names = [name if isinstance(name := peek(function, "name"), str) else "" for function in functions]
    if sorted(names) != sorted(scope.tools):
        return _switched(scope, names[0] if len(names) == 1 else names or None)
    frozen = [dict(call) for call in scope.message["tool_calls"]]
    for call in scope.calls:
        function = functions.pop(names.index(call.tool))
        names.remove(call.tool)
        frozen[call.index] |= {"function": {"name": call.tool, "arguments": peek(function, "arguments")}}
    return scope.message | {"tool_calls": frozen}


def _switched(scope: Scope, found: object) -> Invalid:
    at = scope.only.at if scope.only else "/tool_calls"
    return Invalid((Issue.of(Code.TOOL_SWITCHED, at, name=scope.name, found=quote(found)),))


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


def _scoped_call(contract: Contract, message: JSONObject, at: str) -> ScopedCall | None:
    """Return the call that has its arguments at a place; None when its tool is not declared."""
    tokens = pointer_tokens(at)
    index = int(tokens[1]) if len(tokens) == _NATIVE_DEPTH else 0  # in the text channel there is one call
    if contract.channel == "text":
        name: object = named_tool(contract, message)
    else:
        calls: JSON = message.get("tool_calls")
        name = peek(peek(calls[index], "function"), "name") if isinstance(calls, list) and index < len(calls) else None
    return ScopedCall(name, index, at) if isinstance(name, str) and name in contract.by_name else None
