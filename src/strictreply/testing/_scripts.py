"""A model that follows a script, one step for each request.

It also determines which replies a request of the app allows.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, TypeAlias

from strictreply import Contract, Invalid, Tool
from strictreply.core import JSON, Dialects, JSONObject, decode, shape
from strictreply.core.forms import SHAPING
from strictreply.core.judging import callable_tools
from strictreply.core.text import counted, printable
from strictreply.testing._given import GivenStep, given_reply
from strictreply.testing._server import LoopbackServer
from strictreply.testing._serving import assembled, render, sent_of, writer_of
from strictreply.testing._steps import Fault, ReplyPlace, Step, Target
from strictreply.testing._wire import (
    CHAT,
    CallIds,
    HTTPReply,
    Served,
    error_reply,
    is_whole_stream,
)
from strictreply.testing.mounting import (
    AsyncScriptedClient,
    ScriptedClient,
    anthropic_client,
    async_anthropic_client,
    async_openai_client,
    openai_client,
)

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic
    from openai import AsyncOpenAI, OpenAI

_FREE = ("auto", "none")  # the choices that allow a direct answer
_API_DEFAULTS: JSONObject = {"parallel_tool_calls": True, "tool_choice": "auto", "stream": False}


@dataclass(frozen=True, slots=True)
class DemandHints:
    """What the app expects but no request states.

    ``tools`` are those of the text channel, ``answer`` is the structured answer, and ``args`` are
    the first good arguments.
    """

    tools: tuple[object, ...] = ()
    answer: object = None
    args: JSON = None


@dataclass(frozen=True)
class Demand:
    """The replies that one request allows; raises ContractError if no reply can fit it."""

    request: JSONObject = field(repr=False)
    hints: DemandHints = field(default=DemandHints(), repr=False)
    # with "known", the known deviations of servers are good replies
    dialects: Dialects = "known"

    @cached_property
    def contract(self) -> Contract:
        """The strict contract for replies to this request.

        It allows several calls unless the request forbids them.
        """
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
        """The good replies that fit: a call of each callable tool, or an answer.

        Raises ValueError when no good reply can be made.
        """
        place: ReplyPlace = "union" if self.contract.channel == "text" else "call"
        given = [self.hints.args]  # the user's arguments are for the first tool
        calls = [
            Target.of(tool, place=place, args=given.pop() if given else None)
            for tool in self.callable_tools
        ]

        args = given.pop() if given else None
        if self.answer_schema is not None and self.contract.choice in _FREE:
            answer = self.answer_schema if self.hints.answer is None else self.hints.answer
            return (*calls, Target.of(answer, place="json", args=args))

        return tuple(calls) or (Target.of(args=args),)

    def missing(self, needs: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the keywords that a fault needs and the request does not have.

        Keywords that :meth:`refuses` checks are left out.
        """
        stated = {name: value for name, value in self.request.items() if value is not None}
        request = _API_DEFAULTS | stated
        return {
            name: value
            for name, value in needs.items()
            if name not in SHAPING and request.get(name) != value
        }

    def refuses(self, fault: Fault) -> bool:
        """Report whether the contract of this request refuses a fault.

        Of the HTTP responses, a whole stream is judged strictly, so that known deviations of
        servers count as faults. Other HTTP responses count as refused unless their body is a good
        reply. A fault that only another API can have is not refused.
        """
        if fault.api not in ("", writer_of(self.request).wire.name):
            return False

        served = fault.served
        if not isinstance(served, HTTPReply):
            return not self.admits(served)
        if not (is_whole_stream(served) and self.request.get("stream")):
            return not self._is_good_body(served)

        reply = render(served, sent_of(self.request), writer_of(self.request))
        return not replace(self, dialects="strict").admits(assembled(reply.body))

    def _is_good_body(self, reply: HTTPReply) -> bool:
        """Report whether the body of an HTTP response is a good reply in the form of this API."""
        wire = writer_of(self.request).wire
        body: Any = decode(reply.body) if reply.framing == "length" else None
        is_own = wire is not CHAT and wire.recognises(body) and not self.request.get("stream")
        return is_own and self.admits(body)

    def admits(self, served: Served) -> bool:
        """Report whether a completion is a good reply to this request.

        It is judged by the API of the request.
        """
        writer = writer_of(self.request)
        response = served
        if not isinstance(served, HTTPReply):
            response = writer.written(served, sent_of(self.request))

        api: Any = writer.wire.name
        return not isinstance(self.contract.check(response, api=api), Invalid)

    def good(self, *, again: bool = False) -> Served:
        """Return a good reply: first a call, and after its results an answer.

        A tool turn that answers an invalid call is not a result but the app's correction: then the
        call is repeated. ``again`` repeats it after any tool turns, because no good call was served
        yet.
        """
        last = last_results(self.request)
        if again or not last:
            return self.targets[0].clean

        turns = objects(self.request["messages"])
        gate = Contract(tools=self.contract.tools, parallel=True)  # whatever tool_choice is now
        calls = [call for turn in turns for call in objects(turn.get("tool_calls"))]
        reply: JSONObject = {"role": "assistant", "content": None}
        bad = [
            call.get("id")
            for call in calls
            if isinstance(gate.check({**reply, "tool_calls": [call]}), Invalid)
        ]
        results = [
            turn.get("tool_call_id") not in bad for turn in turns if turn.get("role") == "tool"
        ]
        left = self.targets[sum(results) :] or self.targets[-1:]
        if not all(results[-len(last) :]):
            return left[0].clean

        answers = [target for target in self.targets if target.tool is None]
        free = [Target.of()] if self.contract.choice in _FREE else left
        return (answers or free)[0].clean

    @property
    def words(self) -> str:
        """The expected reply, in words."""
        names = ", ".join(target.name for target in self.targets if target.tool is not None)
        asked_for = {
            "call": f"native calls of {names}",
            "union": f"calls of {names} as JSON in the text",
            "json": "a structured answer",
            "prose": "plain text",
        }
        words = asked_for[self.targets[0].place]
        return f"{words}, streamed" if self.request.get("stream") else words

    @property
    def answer_schema(self) -> JSON:
        """The JSON Schema of a structured answer; None if an answer is text."""
        schema = self.contract.answer.schema
        return None if schema is None else schema.source

    @property
    def callable_tools(self) -> list[Tool]:
        """The tools that the request lets the model call."""
        return callable_tools(self.contract)


# How often a fault is served after the last step, and how many turns a conversation may have,
# before an endless loop is ended.
MAX_REQUESTS = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to the model, and the reply that was served."""

    number: int
    """Number of the request, counted from 1."""
    body: JSONObject = field(repr=False)
    """The body of the request."""
    step: Step | None
    """The step that was served; None for the HTTP 400 after the last step."""
    first: Asked | None = field(default=None, repr=False)
    """The first request of the script; None if this is the first."""
    at: float = field(default=0.0, repr=False, compare=False)
    """Time of the request, in monotonic seconds."""

    @property
    def messages(self) -> list[JSONObject]:
        """The messages of the request."""
        return objects(self.body.get("messages"))

    @property
    def tools(self) -> list[JSONObject]:
        """The tool definitions of the request."""
        return objects(self.body.get("tools"))

    @property
    def stream(self) -> bool:
        """Whether the request wants a stream."""
        return bool(self.body.get("stream"))

    @property
    def prompts(self) -> list[tuple[str, str]]:
        """The turns that the app wrote, as role and text: all except the assistant's."""
        turns = [(str(turn.get("role")), text_of(turn)) for turn in self.messages]
        return [(role, text) for role, text in turns if role != "assistant"]

    @property
    def correction(self) -> str:
        """The text that the app sent to the model in addition to its first request.

        Empty if it wrote nothing new.
        """
        if self.first is None:
            return ""

        before = {text for _, text in self.first.prompts}
        return "\n".join(text for _, text in self.prompts if text not in before)


ScriptStep: TypeAlias = Step | Mapping[str, object]
"""A step of ``ok`` or ``faults``, or a mapping with a raw reply."""


def step_of(given: object) -> Step:
    """Read a step; raise TypeError, or ValueError for a wrong mapping, with a hint."""
    if isinstance(given, Step):
        return given
    if isinstance(given, Mapping):
        return GivenStep.of(given)

    name = getattr(given, "name", None)
    advice = "take it from ok or faults, or give a reply: {'body': {…}}"
    if callable(given) and name:
        advice = f"call it: faults.{name}(…)"

    raise TypeError(f"a script takes steps, not {type(given).__name__}; {advice}")


class ScriptedModel:
    """Serves the steps of a script, one for each request, and records every request.

    - ``steps`` are made by ``ok`` and ``faults``. A step may also be a mapping with a raw reply, as
      in a script of ``strictreply serve-script``: ``{"body": …}``, ``{"stream": …}``, ``{"content":
      …}`` or a recorded exchange.
    - ``then`` is served after the last step; without it a further request gets an HTTP 400.
    - ``max_requests`` ends an endless loop with an HTTP 400: when a fault in ``then`` was served so
      often, or the conversation has as many turns of the model. ``looped`` is true from then on.

    The ids of calls are new in every reply. Threads may share a model.
    """

    def __init__(
        self, *steps: ScriptStep, then: ScriptStep | None = None, max_requests: int = MAX_REQUESTS
    ) -> None:
        self._lock = threading.Lock()
        self._served: list[Step] = []  # by all scripts
        self.script(*steps, then=then, max_requests=max_requests)

    def script(
        self, *steps: ScriptStep, then: ScriptStep | None = None, max_requests: int = MAX_REQUESTS
    ) -> None:
        """Begin a new script, and forget the earlier requests.

        - ``steps`` are served in order, one for each request.
        - ``then`` is served to all further requests; None for an HTTP 400.
        - ``max_requests`` ends an endless loop.

        Raises TypeError for a wrong step, ValueError for a wrong mapping, and ValueError when
        ``max_requests`` is less than 1.
        """
        made = tuple(map(step_of, steps))
        last = None if then is None else step_of(then)

        if max_requests < 1:
            raise ValueError("max_requests must be at least 1")

        with self._lock:
            self._steps = made
            self._then = last
            self._max_requests = max_requests
            self._requests: list[Asked] = []
            self._ids = CallIds()
            self.looped: bool = False

    def __call__(self, request: JSONObject) -> Served:
        """Return the reply that the script has for a request, and record the request."""
        with self._lock:
            number = len(self._requests) + 1
            beyond = number - len(self._steps)
            turns = turns_of_model(request)

            # An endless loop is detected by the number of faults served after the steps, or by the
            # number of the model's turns.
            again = 0
            if isinstance(self._then, Fault | GivenStep):
                again = beyond - 1
            elif self._then:
                again = len(turns)
            loops = beyond > 0 and again >= self._max_requests
            self.looped |= loops

            step = self._then
            if loops:
                step = None
            elif beyond <= 0:
                step = self._steps[number - 1]

            if step and step.after and last_results(request):
                was_served = any(one.step is step for one in self._requests)
                asked = {"choices": [{"message": turns[-1] if turns else {}}]}
                if was_served and _called(step.served) == _called(asked):
                    step = step.after

            first = next(iter(self._requests), None)
            self._requests.append(Asked(number, deepcopy(request), step, first, time.monotonic()))
            ids = self._ids

        if step is None:
            return script_over(number, len(self._steps), self._max_requests if loops else 0)

        try:
            served = as_served(step, request, ids)
        except ValueError as error:
            words = f"no step for this request: {error}"
            return error_reply(400, words, code="step_not_made")

        with self._lock:
            if not any(step is one for one in self._served):
                self._served.append(step)

        return served

    def client(self) -> ScriptedClient:
        """Return a sync client without HTTP that serves the script; see :class:`ScriptedClient`."""
        return ScriptedClient(self)

    def async_client(self) -> AsyncScriptedClient:
        """Return a client like :meth:`client` for async code."""
        return AsyncScriptedClient(self)

    def openai(self, **options: object) -> OpenAI:
        """Return a real ``openai.OpenAI`` with an in-memory transport that serves the script.

        ``options`` are those of the SDK's client; ``max_retries`` is 0 by default.
        """
        return openai_client(self, **options)

    def async_openai(self, **options: object) -> AsyncOpenAI:
        """Return a real ``openai.AsyncOpenAI``, like :meth:`openai`."""
        return async_openai_client(self, **options)

    def anthropic(self, **options: object) -> Anthropic:
        """Return a real ``anthropic.Anthropic``, like :meth:`openai`.

        ``options`` are those of the SDK's client. Raises ImportError without the SDK.
        """
        return anthropic_client(self, **options)

    def async_anthropic(self, **options: object) -> AsyncAnthropic:
        """Return a real ``anthropic.AsyncAnthropic``, like :meth:`openai`."""
        return async_anthropic_client(self, **options)

    def serve(self, **options: Any) -> LoopbackServer:
        """Return a loopback server of the script, for any client in any language.

        The server is a context manager. ``options`` are those of :class:`LoopbackServer`.
        """
        return LoopbackServer(self, **options)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the script."""
        return self._steps

    @property
    def then(self) -> Step | None:
        """The step after the last one; None for an HTTP 400."""
        return self._then

    @property
    def requests(self) -> list[Asked]:
        """Every request so far, in order."""
        with self._lock:
            return list(self._requests)

    @property
    def spent(self) -> bool:
        """Whether every step was served."""
        return len(self.requests) >= len(self._steps)

    def was_served(self, step: Step) -> bool:
        """Report whether a step was served to any request, also by an earlier script.

        Equal steps count as one.
        """
        with self._lock:
            return step in self._served

    def assert_spent(self) -> None:
        """Raise AssertionError unless every step was served, and no request was sent after them."""
        asked = len(self.requests)
        steps = len(self._steps)
        if asked < steps:
            raise AssertionError(f"{steps - asked} of {steps} steps were never asked for")
        if over := [request.number for request in self.requests if request.step is None]:
            raise AssertionError(f"the script has {steps} steps; request {over[0]} came after them")

    def assert_no_echo(self) -> None:
        """Raise AssertionError when a text that only the model wrote is in a prompt.

        A prompt is a system, user or tool turn. The message never quotes the text. A text that was
        in a prompt before it was served is the app's own.
        """
        leaks = [f"request {number}, {role} turn: {name}" for number, role, name in self.echoes()]
        if leaks:
            raise AssertionError(f"what the model wrote came back in a prompt: {'; '.join(leaks)}")

    def echoes(self) -> Iterator[tuple[int, str, str]]:
        """Yield each echo as the request's number, the turn's role and the fault's name."""
        own: list[str] = []
        served: list[tuple[str, set[str]]] = []

        for request in self.requests:
            for name, spellings in served:
                for role, text in request.prompts:
                    if any(spelling in text for spelling in spellings):
                        yield request.number, role, name

            own += [text for _, text in request.prompts]
            if request.step is not None:
                words = [
                    word
                    for word in request.step.invented
                    if word and not any(word in text for text in own)
                ]
                served.append((request.step.name, _spellings(words)))

    def story(self) -> str:
        """Return the script and the requests as text.

        Quotes of replies are shortened and escaped.
        """
        lines = [f"script: {counted(len(self._steps), 'step')}"]
        steps: list[tuple[int | str, Step]] = [*enumerate(self._steps, 1)]
        if self._then:
            steps.append(("then always", self._then))

        for place, step in steps:
            says = f": a strict contract reports {step.code}" if isinstance(step, Fault) else ""
            source = abridged(step.source, 2_000)
            lines.append(f"  {place}{'.' if isinstance(place, int) else ':'} {source}{says}")

        for request in self.requests:
            sent = counted(len(request.messages), "message")
            served = request.step.name if request.step else "HTTP 400, as the script was over"
            lines.append(f"request {request.number}: {sent} -> {served}")

            excerpt = abridged(request.correction, 2_000).splitlines()
            if excerpt:
                quoted = "\n".join(
                    map(printable, excerpt)
                )  # an app may quote harmful text of a reply
                lines.append(f"  correction: {quoted}")

        return "\n".join(lines)

    @property
    def source(self) -> str:
        """The line of Python that makes this script again."""
        words = [step.source for step in self._steps]
        if self._then:
            words.append(f"then={self._then.source}")
        return f"llm.script({', '.join(words)})"


def script_over(number: int, steps: int, most: int = 0) -> HTTPReply:
    """Make the HTTP 400 for a request after the last step.

    ``most`` is how often the same reply was served in an endless loop; 0 if there was none.
    """
    this = f"and this is request {number}"
    if most:
        looped = f"an endless loop: {most} times the same reply was served, {this}"
        return error_reply(400, looped, code="script_looped")

    spent = f"the script has {counted(steps, 'step')}, {this}"
    return error_reply(400, spent, code="script_spent")


def as_served(step: Step, request: JSONObject, ids: CallIds) -> Served:
    """Return the reply of a step for a request, with new call ids.

    A raw reply keeps its ids. Raises ValueError for a raw reply that does not fit the request.
    """
    if isinstance(step, GivenStep):
        return given_reply(step.plan, request)

    if isinstance(step, Fault) and step.code.startswith("call.id_"):
        return deepcopy(step.served)  # the fault is about the ids

    return ids.fresh(step.served, request)


def last_results(request: JSONObject) -> list[JSONObject]:
    """Return the tool turns that a conversation ends with, the last one first."""
    turns = reversed(objects(request.get("messages")))
    return list(takewhile(lambda turn: turn.get("role") == "tool", turns))


def _called(served: Any) -> list[tuple[object, object]]:
    """Return the names and the arguments of a completion's calls.

    Empty if it is not a completion, or if its arguments are not JSON.
    """
    try:
        calls = served["choices"][0]["message"]["tool_calls"]
        return [
            (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls
        ]
    except (KeyError, IndexError, TypeError, ValueError):
        return []


def turns_of_model(request: JSONObject) -> list[JSONObject]:
    """Return the turns of a conversation that the model wrote."""
    return [turn for turn in objects(request.get("messages")) if turn.get("role") == "assistant"]


def text_of(turn: JSONObject) -> str:
    """Return the text of a turn, its parts joined; empty if it has none."""
    content: Any = turn.get("content")
    if isinstance(content, str):
        return content

    parts: list[Any] = content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def _spellings(words: Iterable[str]) -> set[str]:
    """Return the forms that texts can have in a prompt.

    These are the text itself, JSON, JSON within JSON, and Python's repr.
    """
    found = set(words)
    for word in words:
        for ascii_only in (True, False):
            once = json.dumps(word, ensure_ascii=ascii_only)[1:-1]
            found |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
        found.add(repr(word)[1:-1])

    return found


def objects(value: object) -> list[JSONObject]:
    """Return the objects in a list; empty if the value is not a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def abridged(text: str, limit: int, good: str = "") -> str:
    """Shorten a text of more than ``limit`` characters.

    The parts that it shares with the ``good`` text at its beginning and end are left out first.
    """
    if len(text) <= limit:
        return text

    def in_common(one: str, other: str) -> int:
        # 20 characters before and after the difference are shown. These are texts, not paths.
        return max(0, len(commonprefix([one, other])) - 20)  # noqa: RUF071

    total = f"({len(text):,} characters)"
    start = in_common(good, text)
    excerpt = text[start : len(text) - in_common(good[start:][::-1], text[start:][::-1])]
    lead = "… " * bool(start)
    trail = f" … {total}" * (excerpt != text)

    if len(excerpt) <= limit:
        return f"{lead}{excerpt}{trail}"

    head = int(limit * 0.7)
    return f"{lead}{excerpt[:head]} … {total} … {excerpt[head - limit :]}"
