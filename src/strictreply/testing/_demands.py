"""What an app's request asks of a reply: where one is written, what it must fit, and which good reply would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from strictreply.contract._contract import Contract
from strictreply.contract._describing import callable_tools
from strictreply.contract._shaping import SHAPING, shape
from strictreply.contract._tool import Tool
from strictreply.testing._event_streams import assembled
from strictreply.testing._response_streams import as_response, is_of_responses
from strictreply.testing._scripts import last_results, objects
from strictreply.testing._steps import Fault, ReplyPlace, Target
from strictreply.testing._wire import EVENT_STREAM, HTTPReply, Served, WireEnding, ending_of, render_response
from strictreply.values._limits import JSON, Dialects, JSONObject
from strictreply.values._replies import Invalid

_FREE = ("auto", "none")  # the choices under which a direct answer is a good reply
_API_DEFAULTS: JSONObject = {"parallel_tool_calls": True, "tool_choice": "auto", "stream": False}


@dataclass(frozen=True, slots=True)
class DemandHints:
    """What no request states: tools of the text channel, the structured answer, the first good arguments."""

    tools: tuple[object, ...] = ()
    answer: object = None
    args: JSON = None


@dataclass(frozen=True)
class Demand:
    """What one request asks for; raises ContractError where no verdict could honour it.

    With the ``dialects`` ``"known"`` the known ways of servers to write a reply are good replies.
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
        return shape(contract, {"messages": [], **given})[0]

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """The good replies that fit: a call of each callable tool, or an answer; ValueError where none can be made."""
        place: ReplyPlace = "union" if self.contract.channel == "text" else "call"
        given = [self.hints.args]  # what the user said is for the first
        calls = [Target.of(tool, place=place, args=given.pop() if given else None) for tool in self.callable_tools]
        args = given.pop() if given else None
        if self.answer_schema is not None and self.contract.choice in _FREE:
            answer = self.answer_schema if self.hints.answer is None else self.hints.answer
            return (*calls, Target.of(answer, place="json", args=args))
        return tuple(calls) or (Target.of(args=args),)

    def missing(self, needs: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the keywords that the request lacks for a fault, without those that :meth:`refuses` judges."""
        said = {**_API_DEFAULTS, **{name: value for name, value in self.request.items() if value is not None}}
        return {name: value for name, value in needs.items() if name not in SHAPING and said.get(name) != value}

    def refuses(self, fault: Fault) -> bool:
        """Report whether the request's own gate refuses a fault; of HTTP responses only a whole stream is judged."""
        served = fault.served
        if not isinstance(served, HTTPReply):
            return not self.admits(served)
        is_whole = served.headers == EVENT_STREAM and ending_of(served) is WireEnding.WHOLE
        if not (is_whole and self.request.get("stream")):
            return True
        sent = render_response(served, self.request) if is_of_responses(self.request) else served
        return not self.admits(assembled(sent.body))

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
        last = last_results(self.request)
        if again or not last:
            return self.targets[0].clean
        turns = objects(self.request["messages"])
        gate = Contract(tools=self.contract.tools, parallel=True)  # whatever the choice is by now
        calls = [call for turn in turns for call in objects(turn.get("tool_calls"))]
        reply: JSONObject = {"role": "assistant", "content": None}
        bad = [call.get("id") for call in calls if isinstance(gate.check({**reply, "tool_calls": [call]}), Invalid)]
        results = [turn.get("tool_call_id") not in bad for turn in turns if turn.get("role") == "tool"]
        left = self.targets[sum(results) :] or self.targets[-1:]
        if not all(results[-len(last) :]):
            return left[0].clean
        answers = [target for target in self.targets if target.tool is None]
        free = [Target.of()] if self.contract.choice in _FREE else left
        return (answers or free)[0].clean

    @property
    def words(self) -> str:
        """What the request asks for, in words."""
        names = ", ".join(target.name for target in self.targets if target.tool is not None)
        calls = {"call": f"native calls of {names}", "union": f"calls of {names} as JSON in the text"}
        words = (calls | {"json": "a structured answer", "prose": "plain text"})[self.targets[0].place]
        return f"{words}, streamed" if self.request.get("stream") else words

    @property
    def answer_schema(self) -> JSON:
        """The JSON Schema of a structured answer; None when an answer is text."""
        schema = self.contract.answer.schema
        return None if schema is None else schema.source

    @property
    def callable_tools(self) -> list[Tool]:
        """The tools that the request lets the model call."""
        return callable_tools(self.contract)
