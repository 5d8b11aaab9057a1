"""What an app's request asks of a reply: where one is written, what it must fit, and which good reply would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

from strictreply.contract._contract import Contract
from strictreply.contract._describing import callable_tools
from strictreply.contract._shaping import SHAPING, shape
from strictreply.contract._tool import Tool
from strictreply.testing._event_streams import assembled
from strictreply.testing._response_streams import as_response, is_of_responses
from strictreply.testing._steps import API_DEFAULTS, Fault, ReplyPlace, Target
from strictreply.testing._wire import (
    EVENT_STREAM,
    HTTPReply,
    Served,
    WireEnding,
    assistant,
    completion,
    ending_of,
    render_response,
)
from strictreply.values._limits import JSON, Dialects, JSONObject
from strictreply.values._replies import Invalid

_FREE = ("auto", "none")
"""The choices under which a direct answer is a good reply."""


@dataclass(frozen=True, slots=True)
class DemandHints:
    """What the user says because no request does.

    ``tools`` are those of an app that takes the JSON union in the text, ``answer`` is what a structured answer must be
    where only the prompt says so, and ``args`` are good arguments, or a good answer, for the first reply.
    """

    tools: tuple[object, ...] = ()
    answer: object = None
    args: JSON = None


@dataclass(frozen=True)
class Demand:
    """What one request asks for; raises ContractError where it asks for what no verdict could honour.

    ``dialects`` says whether known ways of servers to write a reply are good replies, or faults (``strict``).
    """

    request: JSONObject = field(repr=False)
    hints: DemandHints = field(default=DemandHints(), repr=False)
    dialects: Dialects = "known"

    @cached_property
    def contract(self) -> Contract:
        """The strict gate for replies to this request; several calls fit it unless the request forbids them."""
        listed: Any = self.request.get("tools")
        native = tuple(listed) if isinstance(listed, list) else ()
        contract = Contract(
            tools=native or self.hints.tools,
            answer=str if self.hints.answer is None else self.hints.answer,
            channel="text" if self.hints.tools and not native else "native",
            parallel=True,
            dialects=self.dialects,
        )
        given = {name: self.request[name] for name in SHAPING if self.request.get(name) is not None}
        if self.hints.answer is not None:
            given.pop("response_format", None)
        contract, _ = shape(contract, {"messages": [], **given})
        return contract

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """The good replies that fit: a call of each tool that may be called, the structured answer, or plain text.

        Raises ValueError when no good reply can be made of a schema.
        """
        place: ReplyPlace = "union" if self.contract.channel == "text" else "call"
        given = [self.hints.args]  # what the user said is for the first
        calls = [Target.of(tool, place=place, args=given.pop() if given else None) for tool in self.callable_tools]
        args = given.pop() if given else None
        if self.answer_schema is not None and self.contract.choice in _FREE:
            answer = self.answer_schema if self.hints.answer is None else self.hints.answer
            return (*calls, Target.of(answer, place="json", args=args))
        return tuple(calls) or (Target.of(args=args),)

    def missing(self, needs: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the keywords that the request lacks, under which alone something is a fault.

        What shapes the verdict (``tool_choice`` and the like) is left to the verdict: see :meth:`refuses`.
        """
        said = {**API_DEFAULTS, **{name: value for name, value in self.request.items() if value is not None}}
        return {name: value for name, value in needs.items() if name not in SHAPING and said.get(name) != value}

    def refuses(self, fault: Fault) -> bool:
        """Prove that the gate of this very request refuses a fault.

        A stream that was asked for is judged as the completion it makes; any other response is taken at its word.
        """
        served = fault.served
        if not isinstance(served, HTTPReply):
            return not self.admits(served)
        is_whole = served.headers == EVENT_STREAM and ending_of(served) is WireEnding.WHOLE
        if not (is_whole and self.request.get("stream")):
            return True
        return not self.admits(assembled(self._sent(served).body))

    def _sent(self, served: HTTPReply) -> HTTPReply:
        return render_response(served, self.request) if is_of_responses(self.request) else served

    def admits(self, served: Served) -> bool:
        """Report whether a completion is a good reply to this very request, by the API that it came by."""
        if is_of_responses(self.request) and not isinstance(served, HTTPReply):
            return not isinstance(self.contract.check(as_response(served, self.request), api="responses"), Invalid)
        return not isinstance(self.contract.check(served, api="chat"), Invalid)

    def good(self, *, again: bool = False) -> Served:
        """Return a good reply: a call first, and after the tools' results what ends the conversation.

        A tool turn that answers a call which does not fit is no result but the app's correction: the call comes again.
        With ``again`` it does so after whatever tool turns: no good call was served yet.
        """
        turns: Any = self.request["messages"]  # a server lets nothing else through
        last = list(takewhile(lambda turn: turn.get("role") == "tool", reversed(turns)))
        if again or not last:
            return self.targets[0].clean
        bad = self._bad_ids
        results = [turn.get("tool_call_id") not in bad for turn in turns if turn.get("role") == "tool"]
        left = self.targets[sum(results) :] or self.targets[-1:]
        if not all(results[-len(last) :]):
            return left[0].clean
        answers = [target for target in self.targets if target.tool is None]
        if not answers and self.contract.choice in _FREE:
            return Target.of().clean
        return (answers or left)[0].clean

    @property
    def _bad_ids(self) -> list[object]:
        """The ids of the calls in the conversation that do not fit the tools, whatever the choice is by now."""
        gate = Contract(tools=self.contract.tools, parallel=True)
        turns: Any = self.request["messages"]
        several = [turn.get("tool_calls") for turn in turns]
        calls = [call for calls in several if isinstance(calls, list) for call in calls if isinstance(call, dict)]
        return [call.get("id") for call in calls if isinstance(gate.check(_alone(call)), Invalid)]

    @property
    def words(self) -> str:
        """What the request asks for, in words."""
        target = self.targets[0]
        names = ", ".join(one.name for one in self.targets if one.tool is not None)
        told = {
            "call": f"native calls of {names}",
            "union": f"calls of {names} as JSON in the text",
            "json": "a structured answer",
            "prose": "plain text",
        }[target.place]
        return f"{told}, streamed" if self.request.get("stream") else told

    @property
    def answer_schema(self) -> JSON:
        """The JSON Schema of a structured answer; None when an answer is text."""
        schema = self.contract.answer.schema
        return None if schema is None else schema.source

    @property
    def callable_tools(self) -> list[Tool]:
        """The tools that the request lets the model call."""
        return callable_tools(self.contract)


def _alone(call: JSONObject) -> JSONObject:
    return completion(assistant(None, [call]))
