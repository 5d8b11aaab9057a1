"""Opening a chat completion: from the response, an SDK object or a bare message to the one message to judge.

What ends a reply before its content matters is judged here: a refusal, a content filter, a cut at the token limit, a
call that the provider itself could not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from strictreply.values._issues import Code, Issue, quote
from strictreply.values._replies import Invalid
from strictreply.wires._dialects import NeedsNothing, in_api_form
from strictreply.wires._endings import ERROR_OPENINGS, ERRORS, PROMISING, REASONS, WORST_FIRST


@dataclass(frozen=True, slots=True)
class Opened:
    """The assistant message of a response, a mapping or an SDK object.

    ``promised`` says that the response ended to have a tool called, ``leniency`` names the ways of servers that the
    message was written in (:data:`~strictreply.wires._dialects.DIALECTS`): it is given as the API would have it.
    """

    message: object
    promised: bool = False
    leniency: tuple[str, ...] = ()


def peek(value: object, name: str) -> object:
    """Read a member of a mapping or an attribute of an SDK object; None when there is none."""
    if isinstance(value, Mapping):
        return value.get(name)
    return None if isinstance(value, str | bytes | list) else getattr(value, name, None)


def open_envelope(response: object, needs_nothing: NeedsNothing | None = None) -> Opened | Invalid:
    """Find the one message to judge, or say why the response holds none fit to be judged.

    ``needs_nothing`` says which tools can be called without arguments; with None the ways of servers are not read.
    """
    if _is_message(response):
        return _open_message(None, None, response, needs_nothing)
    if response is None or isinstance(response, str | bytes | int | float | list | tuple):
        return _refused(Code.ENVELOPE_MALFORMED, "", expected="an object", found=quote(response))
    choices = peek(response, "choices")
    if not isinstance(choices, list | tuple) or len(choices) != 1:
        ending = _bad_ending(response, None, None)
        return (
            _refused(Code.ENVELOPE_CHOICES, "/choices", found=quote(choices)) if ending is None else Invalid((ending,))
        )
    return _open_message(response, choices[0], peek(choices[0], "message"), needs_nothing)


def _is_message(value: object) -> bool:
    """Return whether a value is a message and no response: it has a role, content or calls, and no choices."""
    if value is None or isinstance(value, str | bytes | int | float | list | tuple):
        return False
    if isinstance(value, Mapping):
        return "choices" not in value and "error" not in value and not value.keys().isdisjoint(_MESSAGE_KEYS)
    return not hasattr(value, "choices") and any(hasattr(value, name) for name in _MESSAGE_KEYS)


_MESSAGE_KEYS = frozenset({"role", "content", "tool_calls", "refusal", "function_call"})


def _open_message(
    response: object, choice: object, message: object, needs_nothing: NeedsNothing | None
) -> Opened | Invalid:
    """Refuse a message that ended badly, whatever it holds, also when it is not there at all."""
    ending = _bad_ending(response, choice, message)
    if ending is not None:
        return Invalid((ending,))
    if not _is_message(message):
        expected = "an object with an assistant message"
        return _refused(Code.ENVELOPE_MALFORMED, "/choices/0/message", expected=expected, found=quote(message))
    reason = peek(choice, "finish_reason")
    if reason is not None and not isinstance(reason, str):
        return _refused(
            Code.ENVELOPE_MALFORMED, "/choices/0/finish_reason", expected="one with a finish_reason of text"
        )
    told, leniency = (
        (message, ()) if needs_nothing is None else in_api_form(message, needs_nothing, bare=choice is None)
    )
    role = peek(told, "role")
    if role != "assistant" and not (role is None and choice is None):  # whoever gives a bare message need not say whose
        return _refused(Code.REPLY_ROLE, "/role", found=quote(role))
    reasons = (reason for _, reason in _reasons(choice, message))
    return Opened(told, any(isinstance(reason, str) and _word(reason) in PROMISING for reason in reasons), leniency)


def _refused(code: Code, path: str, *, found: str = "", **words: str) -> Invalid:
    """Refuse with one issue."""
    return Invalid((Issue.of(code, path, found=found, **words),))


def _bad_ending(response: object, choice: object, message: object) -> Issue | None:
    """Report the worst that a response says of its own end, None when it says nothing bad."""
    found = [(Code.REPLY_REFUSAL, "/refusal", refusal)] if (refusal := peek(message, "refusal")) else []
    found += [(error_code(error), at, error) for at, error in _errors(response, choice, message) if error]
    found += [(code, at, reason) for at, reason in _reasons(choice, message) if (code := _reason_code(reason))]
    if not found:
        return None
    code, at, said = min(found, key=lambda one: WORST_FIRST.index(one[0]))
    return Issue.of(code, at, found=quote(peek(said, "message") or said))


def _reasons(choice: object, message: object) -> Iterator[tuple[str, object]]:
    """Yield each place where a reason stands, as a pointer, and what stands there.

    The translated one; OpenRouter's ``native_finish_reason`` beside it (openrouter.ai, standardized finish reasons);
    LiteLLM's, which it keeps when the translation changed it (docs.litellm.ai, completion output). Not vLLM's
    ``stop_reason``: that is the caller's own stop text (vllm-project/vllm#2976).
    """
    yield "/choices/0/finish_reason", peek(choice, "finish_reason")
    yield "/choices/0/native_finish_reason", peek(choice, "native_finish_reason")
    for at, fields in _vendor_fields(choice, message):
        yield f"{at}/native_finish_reason", peek(fields, "native_finish_reason")


def _errors(response: object, choice: object, message: object) -> Iterator[tuple[str, object]]:
    """Yield each place where an error stands beside or instead of a reply, as a pointer, and what stands there."""
    yield "/error", peek(response, "error")
    yield "/choices/0/error", peek(choice, "error")
    for at, fields in _vendor_fields(choice, message):
        yield f"{at}/error", peek(fields, "error")


def _vendor_fields(choice: object, message: object) -> Iterator[tuple[str, object]]:
    """Return what LiteLLM keeps of the provider's own words, on the choice or on the message."""
    for at, holder in (("/choices/0", choice), ("/choices/0/message", message)):
        fields = peek(holder, "provider_specific_fields")
        if fields:
            yield f"{at}/provider_specific_fields", fields


def _reason_code(reason: object) -> Code | None:
    """Read what a reason means: the whole word, or a half of ``function_call_filter: MALFORMED_FUNCTION_CALL``."""
    if not isinstance(reason, str):
        return None
    first, _, last = reason.partition(":")
    return REASONS.get(_word(reason)) or REASONS.get(_word(last)) or REASONS.get(_word(first))


def error_code(error: object) -> Code:
    """Read what an error says of the model's reply; ``envelope.error`` for one that says nothing of it.

    One that holds what the model wrote is the model's fault, whatever it is called (langchain-ai/langchain#31459).
    """
    message = error if isinstance(error, str) else peek(error, "message")
    inner = peek(error, "innererror") or peek(peek(error, "provider_specific_fields"), "innererror")
    for word in (peek(error, "code"), peek(inner, "code"), peek(error, "type"), message):
        if isinstance(word, str) and _word(word) in ERRORS:
            return ERRORS[_word(word)]
    start = message.lstrip().lower() if isinstance(message, str) else ""
    written = Code.REPLY_UNREADABLE if peek(error, "failed_generation") else Code.ENVELOPE_ERROR
    return next((code for opening, code in ERROR_OPENINGS.items() if start.startswith(opening)), written)


def _word(text: str) -> str:
    """Bring a word to the form of the tables; ``FinishReason.MAX_TOKENS`` is how an enum prints itself."""
    return text.strip().rpartition(".")[2].lower().replace("-", "_").replace(" ", "_")
