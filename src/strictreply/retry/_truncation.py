"""Whether a reply that says it is whole was cut: its token count against the limit that was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from strictreply.contract._contract import Contract
from strictreply.reading._decoding import decode, is_json
from strictreply.reading._extraction import extract
from strictreply.values._attempts import Usage
from strictreply.values._issues import Code, Issue, quote
from strictreply.values._limits import Work, utf8_size
from strictreply.values._replies import Invalid
from strictreply.wires._chat import peek

LENGTH_KEYS = ("max_completion_tokens", "max_tokens")
"""Where a request limits the tokens of its reply; the second is the older name, still the one of most servers."""

NEAR_LIMIT = 0.9
"""From this share of the limit on, JSON that breaks off counts as cut: gateways count with tokenizers of their own."""


def is_limit(value: object) -> TypeGuard[int]:
    """Return whether a value limits tokens: a whole number above zero, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def cut_at_limit(contract: Contract, message: object, request: Mapping[str, Any], response: object) -> Invalid | None:
    """Report a reply that ended at the token limit of its own request, whatever its ending says; else None.

    Servers relabel cut replies as ``stop`` or ``tool_calls`` (vllm-project/vllm#58228: 25 of 3,600). At the limit only
    content that is JSON, closed by its last bracket, proves itself whole. A call does not: the server's parser wrote
    it, and that leaves out, or closes by itself, what was cut (vllm-project/vllm#46303). A little below the limit and
    above it, only JSON that breaks off was cut: a server that counts more than it was allowed counts something else,
    such as reasoning (api-docs.deepseek.com, reasoning model: the limit is that of the answer alone).
    """
    limits = _limits_of(request)
    used = Usage.of(response).completion_tokens if limits and isinstance(response, dict) else 0
    if not limits or used < NEAR_LIMIT * min(limits):
        return None
    if (used in limits and not _is_closed(contract, message)) or _breaks_off(contract, message):
        return Invalid((Issue.of(Code.REPLY_TRUNCATED, "/usage/completion_tokens", found=quote(used)),))
    return None


def _limits_of(request: Mapping[str, Any]) -> list[int]:
    """Read the limits of a request as they were sent: ``extra_body`` has the last word, as in the SDK."""
    extra = request.get("extra_body")
    sent = {**request, **extra} if isinstance(extra, Mapping) else request
    return [limit for key in LENGTH_KEYS if is_limit(limit := sent.get(key))]


def _is_closed(contract: Contract, message: object) -> bool:
    """Return whether content ends where its JSON does: by a bracket, since a number or a word might have gone on."""
    text = _json_content(contract, message)
    return text is not None and text.rstrip().endswith(("}", "]")) and is_json(text, contract.limits)


def _breaks_off(contract: Contract, message: object) -> bool:
    """Return whether a JSON text of a message ends before it is complete."""
    calls = peek(message, "tool_calls")
    written = calls if isinstance(calls, list) else []
    texts = [peek(peek(call, "function"), "arguments") for call in written] or [_json_content(contract, message)]
    if len(texts) > contract.limits.calls or sum(map(utf8_size, texts)) > contract.limits.reply_bytes:
        return False  # refused for its size
    work = Work()  # one for all texts
    read = [decode(text, contract.limits, work=work) for text in texts if isinstance(text, str) and text]
    faults = [issue.code for verdict in read if isinstance(verdict, Invalid) for issue in verdict.issues]
    return Code.JSON_INCOMPLETE.value in faults


def _json_content(contract: Contract, message: object) -> str | None:
    """Return the content where it should be JSON, as the contract's leniencies read it; None where it need not be."""
    content = peek(message, "content")
    is_reply = contract.channel == "text" or not (contract.answer.is_text or peek(message, "tool_calls"))
    return extract(content, contract.extraction, contract.limits)[0] if is_reply and isinstance(content, str) else None
