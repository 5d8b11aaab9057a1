"""From a raw reply to an action still to be judged: processors by priority, each for one way of writing replies.

A processor only translates. Whether the action is permitted, and fits its shape, is judged after all of them alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, cast

from strictreply.coordination._actions.kinds import ActionType, Origin
from strictreply.coordination._replies.api_errors import ERROR_ROLE, read_error_message
from strictreply.coordination._replies.plain_json import plain_issues
from strictreply.coordination._replies.readings import NOT_AS_ASKED, VIEWS, Reading, View, read_reply
from strictreply.coordination._replies.results import UNREAD, Source
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
    reads, empty when it is none that an agent could be held to. ``origin`` says whose word an action of its is.
    """

    views: ClassVar[tuple[View, ...]] = VIEWS
    origin: ClassVar[Origin] = Origin.MODEL
    format_name: str = ""

    @abstractmethod
    def can_process(self, response: Any) -> bool:
        """Tell whether a reply, as one of its sides shows it, is written in this way."""

    @abstractmethod
    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Translate a reply into an action with ``next_action``; None leaves it to the next processor.

        Invalid says that it is written in this way, but faultily; the next processors are asked all the same.
        """

    @abstractmethod
    def priority(self) -> int:
        """Give the rank: the highest is asked first, and of equal ones the one registered first."""


class RankedProcessor(ResponseProcessor):
    """A built-in processor: its rank may be changed when it is made."""

    rank: ClassVar[int]

    def __init__(self, priority: int | None = None) -> None:
        """Take the documented rank unless another is given."""
        self._priority = self.rank if priority is None else priority

    def priority(self) -> int:
        """Give the rank."""
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
    views = ("reply",)
    origin = Origin.SYSTEM

    def can_process(self, response: Any) -> bool:
        """Tell an error message from a reply."""
        return peek(response, "role") == ERROR_ROLE

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Give the system's action for this class of error, with its details."""
        error = read_error_message(response)
        if isinstance(error, Invalid):
            return error
        known = {"classification": error.classification.value, "message": error.message}
        return {"next_action": error.action.value, "error_details": error.details | known}


class ToolCallProcessor(RankedProcessor):
    """Reads native tool calls, where there are any (requirement M55)."""

    rank = TOOL_PRIORITY
    views = ("reply",)

    def __init__(self, priority: int | None = None, *, max_calls: int = DEFAULT_LIMITS.calls) -> None:
        """Take the documented rank unless another is given; no more than ``max_calls`` calls are read at once."""
        super().__init__(priority)
        self._max_calls = max_calls

    def can_process(self, response: Any) -> bool:
        """Tell a message with calls from one that merely has the field."""
        return bool(peek(response, "tool_calls"))

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Give the calls without what an SDK or a server says beside them."""
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
    views = ("value",)
    format_name = "json"

    def can_process(self, response: Any) -> bool:
        """Tell an action from any other object."""
        return isinstance(response, dict) and "next_action" in response

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Give the object as it is."""
        given: dict[str, Any] = response
        return given


class TextResponseProcessor(RankedProcessor):
    """Takes prose for the final response. Nothing is read into it, and it must be registered expressly (M57).

    Text that begins like JSON, a code fence or a tag is a faulty action, not prose.
    """

    rank = TEXT_PRIORITY
    views = ("text",)
    format_name = "text"

    def can_process(self, response: Any) -> bool:
        """Tell prose from an action gone wrong."""
        if not isinstance(response, str):
            return False
        start = response.lstrip()
        return bool(start) and not start.startswith(_NOT_PROSE) and "next_action" not in response

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Give the text as the content of a final response."""
        return {"next_action": ActionType.FINAL_RESPONSE.value, "content": response}


class Candidate(NamedTuple):
    """What a processor made of a reply: an action still to be judged, whose word it is, and how it was read."""

    action: JSONObject
    origin: Origin = Origin.MODEL
    source: Source = UNREAD


class ProcessorChain:
    """Processors in the order they are asked: by priority, then by registration (requirements M51, X2).

    It only translates: what a reply asks for is judged by a :class:`ValidationProcessor`, which has a chain of its own.
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
            _refuse_non_processor(processor)
        self.processors = tuple(sorted(given, key=lambda processor: -processor.priority()))

    def with_processor(self, processor: ResponseProcessor) -> ProcessorChain:
        """Give a chain with one more processor, behind those of the same priority."""
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


def candidate_of(processors: Iterable[ResponseProcessor], reading: Reading) -> Candidate | Invalid:
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
        (failures if isinstance(outcome, Issue) else refusals).extend(_issues(outcome))
    return Invalid((*failures, *(refusals or _unread(asked, reading))), reading.leniency)


def _unread(processors: tuple[ResponseProcessor, ...], reading: Reading) -> tuple[Issue, ...]:
    """Say why nobody could read a reply, in words of JSON only where an action is written in it."""
    if any(isinstance(processor, StructuredJSONProcessor) for processor in processors):
        return reading.issues
    if reading.value is None and any("value" in one.views for one in processors if one.format_name):
        return reading.issues
    return (NOT_AS_ASKED,)


def _asked(processor: ResponseProcessor, reading: Reading) -> JSONObject | Invalid | Issue | None:
    """Show a processor each side of the reply that it looks at; Issue is a failure of its own."""
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
    """Run a stranger's code: what it raises, and what it gives instead of an action, is a failure of it."""
    try:
        if not processor.can_process(response):
            return None
        outcome = processor.process(response)
    except Exception:  # noqa: BLE001 - it must not end the judging of a reply
        return _failure(processor)
    return _failure(processor) if _is_foreign(outcome) else outcome


def _is_foreign(outcome: object) -> bool:
    """Tell what a processor may not give."""
    return outcome is not None and not isinstance(outcome, dict | Invalid)


def _owned(action: JSONObject, reading: Reading) -> JSONObject | Invalid:
    """Hold an action that the strict reader did not give to what it refuses, and copy it: it may change later."""
    issues = plain_issues(action, reading.limits)
    return Invalid(issues) if issues else cast("JSONObject", plain(action))


def _issues(outcome: Invalid | Issue) -> tuple[Issue, ...]:
    """Give the faults of an outcome that is no action."""
    return (outcome,) if isinstance(outcome, Issue) else outcome.issues


def _failure(processor: ResponseProcessor) -> Issue:
    """Report a processor that raised, or gave something else than it should."""
    return Issue.of(Code.FORMAT_PROCESSOR_FAILED, name=type(processor).__name__)


def _plain_call(call: object) -> object:
    """Give one native call as JSON, with the members that the API documents; what is no call stays as it is."""
    function = peek(call, "function")
    if function is None:
        return call if isinstance(call, dict) else quote(call)
    inner = {"name": peek(function, "name"), "arguments": peek(function, "arguments")}
    members = {"id": peek(call, "id"), "type": peek(call, "type"), "function": inner}
    return {name: member for name, member in members.items() if member is not None}


def _refuse_non_processor(processor: object) -> None:
    """Refuse what cannot be asked."""
    if not isinstance(processor, ResponseProcessor):
        raise ContractError(f"a processor is an instance of ResponseProcessor, not {type(processor).__name__}")
