"""The story of a failed call as text for a person: what came, what was wrong, what was asked, what to do."""

from __future__ import annotations

import json

from strictreply.values._attempts import Attempt, plain, total_usage
from strictreply.values._credentials import without_credentials
from strictreply.values._issues import Issue, Remedy, printable, printable_json

MAX_RAW_CHARS = 2_000

ADVICE: dict[Remedy, str] = {
    Remedy.CORRECT: "Look at what the model got wrong (attempt.raw): state the rule in the tool's description, allow "
    "more retries (RetryPolicy.max_retries), or relax the schema.",
    Remedy.SHORTEN: "Raise max_tokens, or ask for less in one reply.",
    Remedy.RESEND: "The server broke off, or sent what is no completion: look at the endpoint, not at the prompt.",
    Remedy.STOP: "The provider or the model declined: change the prompt or the model; asking again will not help.",
}
"""What a person can do about each kind of fault."""

_LATER = "Try again later, or allow more RetryPolicy.transport_retries; error.cause has the SDK's own exception."
REASON_ADVICE: dict[str, str] = {
    "deadline": "Raise RetryPolicy.deadline, or use a faster model; attempts say where the seconds went.",
    "tokens": "Raise RetryPolicy.max_tokens_total, or send a shorter conversation.",
    "cost": "Raise RetryPolicy.max_cost, or send a shorter conversation.",
    "category": "Look at what the model got wrong (attempt.raw), or take its category out of RetryPolicy.stop_on.",
    "authentication_failed": "Check the API key and the base URL of the client.",
    "permission_denied": "Check what the API key may use: the model, the project, the region.",
    "not_found": "Check the model's name and the base URL of the client.",
    "insufficient_credits": "Add credit at the provider, or use another key.",
    "invalid_request": "Read what the server refused in error.cause: a keyword or a tool that it does not take.",
    "request_too_large": "Send a shorter conversation or fewer tools.",
    "response_too_large": "Look at the endpoint: it sent over 16 times Limits.reply_bytes; raise that if it is right.",
    "redirect_refused": "Set the client's base_url to where the API is: prompts and keys are sent to no other origin.",
    "retry_quota": "Look at the endpoint: most calls fail, and RetryPolicy.quota holds repeats back till some succeed.",
    **dict.fromkeys(("rate_limit", "server_error", "timeout", "connection", "conflict"), _LATER),
}
"""What a person can do when a budget or the transport ended a call, by the error's ``reason``."""


def remedy_lines(issues: tuple[Issue, ...]) -> list[str]:
    """Say once for each kind of fault what to do about it."""
    kinds = dict.fromkeys(issue.remedy for issue in issues)
    return [f"  What to do: {ADVICE[kind]}" for kind in kinds]


def reason_lines(reason: str) -> list[str]:
    """Say what to do about what ended a call; nothing for reasons that the faults explain."""
    return [f"  What to do: {REASON_ADVICE[reason]}"] if reason in REASON_ADVICE else []


def tell(headline: str, attempts: tuple[Attempt, ...]) -> str:
    """Tell every attempt in order, raw replies included."""
    usage = total_usage(attempts)
    lines = [headline, f"{len(attempts)} attempts, {usage.total_tokens} tokens in all."]
    for attempt in attempts:
        lines += _attempt_lines(attempt)
    last = next((attempt.issues for attempt in reversed(attempts) if attempt.issues), ())
    return "\n".join([*lines, *(line.strip() for line in remedy_lines(last))])


def cause_line(cause: Exception) -> str:
    """Say in a line what an exception said, capped, without what its request was sent with.

    What is not printable ASCII is escaped, as in a ``repr``.
    """
    try:
        words = str(cause)
    except Exception:  # noqa: BLE001 - an exception's own code may raise anything, and the story is told all the same
        words = ""
    return f"Caused by {printable(type(cause).__name__)}: {_capped(ascii(without_credentials(words, cause)))}"


def _attempt_lines(attempt: Attempt) -> list[str]:
    """Tell one attempt: what was asked, what came, what was wrong."""
    scope = f", only the arguments of {attempt.scope}" if attempt.scope else ""
    lines = ["", f"Attempt {attempt.number} ({attempt.seconds:.2f} s{scope})"]
    if attempt.correction:
        lines += ["  asked:", *_indented(attempt.correction)]
    if attempt.failure:
        lines.append(f"  failed: {attempt.failure}")
    if attempt.raw is not None:
        lines += ["  came:", *_indented(_reply_text(attempt))]
    lines += [f"  lenient step: {step}" for step in attempt.leniency]
    for issue in attempt.issues:
        lines.append(f"  wrong: {issue.code} at {issue.place}: {issue.message}")
        lines += [f"         found {printable(issue.found)}"] if issue.found else []
        lines += [f"         {issue.hint}"] if issue.hint else []
    return [*lines, "  accepted"] if attempt.accepted else lines


def _reply_text(attempt: Attempt) -> str:
    """Show the message of a completion, or the whole response when it has none; capped, escaped."""
    shown = attempt.raw
    if isinstance(shown, dict):
        choices = shown.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        shown = first.get("message", shown) if isinstance(first, dict) else shown
    return printable_json(_capped(json.dumps(plain(shown))))


def _capped(text: str) -> str:
    """Cut a long text, and say how long it was."""
    return text if len(text) <= MAX_RAW_CHARS else f"{text[:MAX_RAW_CHARS]} … ({len(text)} characters in all)"


def _indented(text: str) -> list[str]:
    """Indent each line, what is not printable escaped: a user's own steering may have worded a correction."""
    return [f"    {printable(line)}" for line in text.splitlines()]
