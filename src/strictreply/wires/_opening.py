"""What opening a response needs on every wire: reading members, the opened message, and the meaning of bad endings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strictreply.values._issues import Code, Issue, quote
from strictreply.values._json import JSONObject
from strictreply.values._replies import Invalid, ToolCall
from strictreply.wires._endings import ERROR_OPENINGS, ERRORS, REASONS, WORST_FIRST


@dataclass(frozen=True, slots=True)
class Opened:
    """The assistant message of a response, a mapping or an SDK object, in the one form that is judged.

    ``promised`` says that the response ended to have a tool called, ``leniency`` names the ways of servers that the
    message was written in (:data:`~strictreply.wires._dialects.DIALECTS`): it is given as the API would have it.
    ``came`` is the message before that, None where the response holds none as plain JSON. ``server_calls`` are those
    of tools that only the API knows, and which the program has to answer: nothing in them is judged. ``served`` says
    that the server itself called one. ``medium`` names an answer that is no text (speech, an image): nothing judges it.
    """

    message: object
    promised: bool = False
    leniency: tuple[str, ...] = ()
    came: JSONObject | None = None
    server_calls: tuple[ToolCall, ...] = ()
    served: bool = False
    medium: str = ""


def peek(value: object, name: str) -> object:
    """Read a member of a mapping or an attribute of an SDK object; None when there is none."""
    if type(value) is dict or isinstance(value, Mapping):  # the first alone is fast
        return value.get(name)
    return None if isinstance(value, str | bytes | list) else getattr(value, name, None)


def refused(code: Code, path: str, *, found: str = "", **words: str) -> Invalid:
    """Refuse with one issue."""
    return Invalid((Issue.of(code, path, found=found, **words),))


def reason_code(reason: object) -> Code | None:
    """Read what a reason means: the whole word, or a half of ``function_call_filter: MALFORMED_FUNCTION_CALL``."""
    if not isinstance(reason, str):
        return None
    first, _, last = reason.partition(":")
    return REASONS.get(word_of(reason)) or REASONS.get(word_of(last)) or REASONS.get(word_of(first))


def error_code(error: object) -> Code:
    """Read what an error says of the model's reply; ``envelope.error`` for one that says nothing of it.

    One that holds what the model wrote is the model's fault, whatever it is called (langchain-ai/langchain#31459).
    """
    message = error if isinstance(error, str) else peek(error, "message")
    inner = peek(error, "innererror") or peek(peek(error, "provider_specific_fields"), "innererror")
    for word in (peek(error, "code"), peek(inner, "code"), peek(error, "type"), message):
        if isinstance(word, str) and word_of(word) in ERRORS:
            return ERRORS[word_of(word)]
    start = message.lstrip().lower() if isinstance(message, str) else ""
    written = Code.REPLY_UNREADABLE if peek(error, "failed_generation") else Code.ENVELOPE_ERROR
    return next((code for opening, code in ERROR_OPENINGS.items() if start.startswith(opening)), written)


def word_of(text: str) -> str:
    """Bring a word to the form of the tables; ``FinishReason.MAX_TOKENS`` is how an enum prints itself."""
    return text.strip().rpartition(".")[2].lower().replace("-", "_").replace(" ", "_")


def worst_of(found: Iterable[tuple[Code, str, object]]) -> Issue | None:
    """Report the worst of the bad endings that were told, each with its place and what stands there; None of none."""
    told = min(found, key=lambda one: WORST_FIRST.index(one[0]), default=None)
    return None if told is None else Issue.of(told[0], told[1], found=quote(peek(told[2], "message") or told[2]))


def ids_in(messages: Iterable[object]) -> list[str]:
    """Collect the ids of the calls in a conversation, in order: those in messages, and calls that are items alone."""
    ids: list[str] = []
    for message in messages:
        if type(message) is dict and not message.get("tool_calls") and "call_id" not in message:
            continue  # most messages
        calls = peek(message, "tool_calls")
        several = calls if isinstance(calls, list | tuple) else ()
        alone = str(peek(message, "type")).endswith("_call") and peek(message, "call_id")
        ids += [id_ for id_ in (*(peek(one, "id") for one in several), alone) if isinstance(id_, str)]
    return ids
