"""From a raw reply to an action still to be judged: processors by priority, each for one way of writing replies.

A processor only translates. Whether the action is permitted, and fits its shape, is judged after all of them alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, cast

from strictreply.coordination._actions import UNREAD, ActionType, Origin, Source
from strictreply.coordination._api_errors import ERROR_ROLE, read_error_message
from strictreply.coordination._coordination_codes import AgentReplyCode
from strictreply.coordination._reply_view import NOT_AS_ASKED, VIEWS, ReplyView, View, plain_issues, read_reply
from strictreply.values._attempts import plain
from strictreply.values._errors import ContractError
from strictreply.values._issues import Code, Issue, quote
from strictreply.values._json import JSON, JSONObject
from strictreply.values._limits import DEFAULT_LIMITS
from strictreply.values._replies import Invalid
from strictreply.wires._chat import peek

ERROR_PRIORITY: Final = 100
TOOL_PRIORITY: Final = 90
FORMAT_PRIORITY: Final = 80
TEXT_PRIORITY: Final = 10
"""The priorities of the built-in processors (requirement X2); 75, say, comes after JSON and before text."""

_NOT_PROSE = ("{", "[", "`", "<", '"')


class ResponseProcessor(ABC):
    """One way of writing replies.

    ``views`` are the sides of a reply that it is shown, in this order; all by default. ``format_name`` is the format it
    reads, empty when it is none that an agent could be held to. ``origin`` says who asks for the actions it reads.
    """

    views: ClassVar[tuple[View, ...]] = VIEWS
    origin: ClassVar[Origin] = Origin.MODEL
    format_name: str = ""

    @abstractmethod
    def can_process(self, response: Any) -> bool:
        """Return whether a reply, as one of its sides shows it, is written in this way."""

    @abstractmethod
    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Translate a reply into an action with ``next_action``; None leaves it to the next processor.

        Invalid says that it is written in this way, but faultily; the next processors are asked all the same.
        """

    @abstractmethod
    def priority(self) -> int:
        """Return the rank: the highest is asked first, and of equal ones the one registered first."""


class RankedProcessor(ResponseProcessor):
    """A built-in processor: its rank may be changed when it is made."""

    rank: ClassVar[int]

    def __init__(self, priority: int | None = None) -> None:
        self._priority = self.rank if priority is None else priority

    def priority(self) -> int:
        """Return the rank."""
        return self._priority


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """What an application says in place of a reply when the API failed.

    ``content`` is a report (``classification``, ``message``, ``retry_after``, …) as a mapping or a JSON text, or any
    other text.
    """

    content: JSON
    role: str = ERROR_ROLE


class ErrorMessageProcessor(RankedProcessor):
    """Reads an error that the application reports with the role ``error`` (requirement M56): the system's own word."""

    rank = ERROR_PRIORITY
    views: ClassVar[tuple[View, ...]] = ("reply",)
    origin = Origin.SYSTEM

    def can_process(self, response: Any) -> bool:
        """Return whether a message reports an error."""
        return peek(response, "role") == ERROR_ROLE

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Return the system's action for this class of error, with its details."""
        error = read_error_message(response)
        if isinstance(error, Invalid):
            return error
        known = {"classification": error.classification.value, "message": error.message}
        return {"next_action": error.action.value, "error_details": error.details | known}


class ToolCallProcessor(RankedProcessor):
    """Reads native tool calls, where there are any (requirement M55)."""

    rank = TOOL_PRIORITY
    views: ClassVar[tuple[View, ...]] = ("reply",)

    def __init__(self, priority: int | None = None, *, max_calls: int = DEFAULT_LIMITS.calls) -> None:
        """Take the documented rank unless another is given; no more than ``max_calls`` calls are read at once."""
        super().__init__(priority)
        self._max_calls = max_calls

    def can_process(self, response: Any) -> bool:
        """Return whether a message has calls; the field alone may be empty."""
        return bool(peek(response, "tool_calls"))

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Return the calls without what an SDK or a server says beside them."""
        calls = peek(response, "tool_calls")
        if not isinstance(calls, list | tuple):
            return Invalid((Issue.of(Code.CALL_MALFORMED, "/tool_calls", expected="in an array", found=quote(calls)),))
        listed = cast("list[object] | tuple[object, ...]", calls)
        if len(listed) > self._max_calls:
            return Invalid((Issue.of(Code.TOOL_TOO_MANY, "/tool_calls", limit=self._max_calls),))
        return {"next_action": ActionType.CALL_TOOL.value, "tool_calls": [_plain_call(call) for call in listed]}


class StructuredJSONProcessor(RankedProcessor):
    """Reads a JSON object with ``next_action`` (requirement M54)."""

    rank = FORMAT_PRIORITY
    views: ClassVar[tuple[View, ...]] = ("value",)
    format_name = "json"

    def can_process(self, response: Any) -> bool:
        """Return whether an object names an action."""
        return isinstance(response, dict) and "next_action" in response

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Return the object as it is."""
        given: dict[str, Any] = response
        return given


class TextResponseProcessor(RankedProcessor):
    """Takes prose for the final response. Nothing is read into it, and it must be registered expressly (M57).

    Text that begins like JSON, a code fence or a tag is a faulty action, not prose.
    """

    rank = TEXT_PRIORITY
    views: ClassVar[tuple[View, ...]] = ("text",)
    format_name = "text"

    def can_process(self, response: Any) -> bool:
        """Return whether a text is prose, and not an action written wrongly."""
        if not isinstance(response, str):
            return False
        start = response.lstrip()
        return bool(start) and not start.startswith(_NOT_PROSE) and "next_action" not in response

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Return the text as the content of a final response."""
        return {"next_action": ActionType.FINAL_RESPONSE.value, "content": response}


class Candidate(NamedTuple):
    """What a processor made of a reply: an action still to be judged, who asks for it, and how it was read."""

    action: JSONObject
    origin: Origin = Origin.MODEL
    source: Source = UNREAD


class ProcessorChain:
    """Processors in the order they are asked: by priority, then by registration (requirements M51, X2).

    It only translates; a :class:`ValidationProcessor`, which has a chain of its own, judges what a reply asks for.
    """

    __slots__ = ("processors",)

    processors: tuple[ResponseProcessor, ...]

    def __init__(self, processors: Iterable[ResponseProcessor] | None = None) -> None:
        """Bring the processors into order, once; None is those for errors, native calls and JSON.

        Raises ContractError for what is no processor.
        """
        published = (ErrorMessageProcessor(), ToolCallProcessor(), StructuredJSONProcessor())
        given = published if processors is None else tuple(processors)
        for processor in given:
            if not isinstance(cast("object", processor), ResponseProcessor):
                raise ContractError(f"a processor is an instance of ResponseProcessor, not {type(processor).__name__}")
        self.processors = tuple(sorted(given, key=lambda processor: -processor.priority()))

    def with_processor(self, processor: ResponseProcessor) -> ProcessorChain:
        """Return a chain with one more processor, behind those of the same priority."""
        return ProcessorChain((*self.processors, processor))

    async def process(self, response: object) -> JSONObject | None:
        """Return the action that a raw reply asks for, unjudged; None when no processor can read it, or it ended badly.

        Nothing is awaited, and nothing is raised, whatever the reply holds.
        """
        try:
            reading = read_reply(response, ("strict",), DEFAULT_LIMITS)
            found = reading if isinstance(reading, Invalid) else candidate_of(self.processors, reading)
        except Exception:  # noqa: BLE001 - to look at an object is to run its code, which may raise anything (M4)
            return None
        return None if isinstance(found, Invalid) else found.action


def candidate_of(processors: Iterable[ResponseProcessor], reading: ReplyView) -> Candidate | Invalid:
    """Ask processors in turn; the first that gives an action wins.

    Invalid when none does: with the faults of processors that raised, then what those that know the way of writing
    found wrong, or else why the reply holds no action. A processor that raises never ends the asking (M59).
    """
    failures: list[Issue] = []
    refusals: list[Issue] = []
    asked = tuple(processors)
    for processor in asked:
        outcome = _asked(processor, reading)
        if outcome is None:
            continue
        if isinstance(outcome, dict) and not reading.decoded(outcome):
            outcome = _owned(outcome, reading)
        if isinstance(outcome, dict):
            source = Source(processor.format_name, tuple(failures), reading.leniency)
            return Candidate(outcome, processor.origin, source)
        if isinstance(outcome, Issue):
            failures.append(outcome)
        else:
            refusals.extend(outcome.issues)
    return Invalid((*failures, *(refusals or _unread(asked, reading))), reading.leniency)


def _unread(processors: tuple[ResponseProcessor, ...], reading: ReplyView) -> tuple[Issue, ...]:
    # issues of JSON are reported only where actions are written in it
    if any(isinstance(processor, StructuredJSONProcessor) for processor in processors):
        return reading.issues
    if reading.value is None and any("value" in one.views for one in processors if one.format_name):
        return reading.issues
    return (NOT_AS_ASKED,)


def _asked(processor: ResponseProcessor, reading: ReplyView) -> JSONObject | Invalid | Issue | None:
    """Pass a processor each view of the reply that it looks at; Issue is the processor's own failure."""
    worst: Invalid | Issue | None = None
    for view in processor.views:
        response: object = getattr(reading, view)
        outcome = None if response is None else _translated(processor, response)
        if outcome is None:
            continue
        if isinstance(outcome, dict):
            return outcome
        worst = outcome
    return worst


def _translated(processor: ResponseProcessor, response: object) -> JSONObject | Invalid | Issue | None:
    """Run a processor, which may be foreign code: what it raises, or returns instead of an action, is its failure."""
    try:
        if not processor.can_process(response):
            return None
        outcome = cast("object", processor.process(response))
    except Exception:  # noqa: BLE001 - it must not end the judging of a reply
        return _failure(processor)
    if outcome is None or isinstance(outcome, Invalid):
        return outcome
    return cast("JSONObject", outcome) if isinstance(outcome, dict) else _failure(processor)


def _owned(action: JSONObject, reading: ReplyView) -> JSONObject | Invalid:
    """Hold an action that the strict reader did not give to what it refuses, and copy it: it may change later."""
    issues = plain_issues(action, reading.limits)
    return Invalid(issues) if issues else cast("JSONObject", plain(action))


def _failure(processor: ResponseProcessor) -> Issue:
    return AgentReplyCode.FORMAT_PROCESSOR_FAILED.at("", name=type(processor).__name__)


def _plain_call(call: object) -> object:
    """Return one native call as JSON, with the members that the API documents; what is no call stays as it is."""
    function = peek(call, "function")
    if function is None:
        return call if isinstance(call, dict) else quote(call)
    inner = {"name": peek(function, "name"), "arguments": peek(function, "arguments")}
    members = {"id": peek(call, "id"), "type": peek(call, "type"), "function": inner}
    return {name: member for name, member in members.items() if member is not None}
