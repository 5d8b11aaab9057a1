"""Converts replies from the form in which their schemas were sent back to the declared form."""

from __future__ import annotations

import json
from dataclasses import replace

from strictreply.contract._contract import Contract
from strictreply.contract._sent_schemas import SentSchemas
from strictreply.reading._decoding import THINK_CLOSE, decode, extract
from strictreply.schema._sent_form import SentForm
from strictreply.values._drafts import Draft, DraftCall
from strictreply.values._limits import Limits
from strictreply.values._replies import Invalid
from strictreply.values._requests import FORMAT, Request
from strictreply.wires._wire import Opened

_BLANKS = " \t\n\r"
"""The characters that may surround JSON."""


def restored(contract: Contract, request: Request, opened: Opened) -> Opened:
    """Return a reply in the form of the declared schemas: members that were null become absent.

    Return it unchanged if the request sent the schemas as declared.
    """
    sent = contract.sent
    if sent is None or not request.is_strict:
        return opened

    draft = _restored_draft(contract, sent, request, opened.draft)
    if draft is opened.draft:
        return opened

    return replace(opened, draft=draft, is_exact=False)


def as_sent(contract: Contract, request: Request, draft: Draft) -> Draft:
    """Return a declared reply with its calls in the form of the sent schemas."""
    sent = contract.sent
    if sent is None or not request.is_strict:
        return draft

    calls = tuple(_sent_call(sent, call, contract.limits) for call in draft.calls)
    is_same = all(one is other for one, other in zip(calls, draft.calls, strict=True))
    return draft if is_same else replace(draft, calls=calls)


def _sent_call(sent: SentSchemas, call: DraftCall, limits: Limits) -> DraftCall:
    tool = sent.tools.get(call.name) if isinstance(call.name, str) else None
    if tool is None or tool.form.sent is None or not isinstance(call.arguments, str):
        return call

    value = decode(call.arguments, limits)
    if isinstance(value, Invalid):
        return call

    return replace(call, arguments=json.dumps(tool.form.sent(value), ensure_ascii=False))


def _restored_draft(contract: Contract, sent: SentSchemas, request: Request, draft: Draft) -> Draft:
    calls = tuple(_restored_call(sent, call, contract.limits) for call in draft.calls)
    if any(one is not other for one, other in zip(calls, draft.calls, strict=True)):
        draft = replace(draft, calls=calls)

    answers = sent.answer is not None and FORMAT in request.added
    if not answers or draft.text is None or calls or sent.answer is None:
        return draft

    text = _restored_answer(contract, sent.answer, draft.text)
    return draft if text is draft.text else replace(draft, text=text)


def _restored_answer(contract: Contract, form: SentForm, text: str) -> str:
    """Return the text of an answer with its JSON restored; text around the JSON stays."""
    found, steps = extract(text, contract.extraction, contract.limits)
    found = found.strip(_BLANKS)
    declared = _restored_text(form, found, contract.limits)
    if declared is found:
        return text

    begin = text.index(THINK_CLOSE) if "after_think" in steps else 0
    start = text.index(found, begin)
    return f"{text[:start]}{declared}{text[start + len(found) :]}"


def _restored_call(sent: SentSchemas, call: DraftCall, limits: Limits) -> DraftCall:
    tool = sent.tools.get(call.name) if isinstance(call.name, str) else None
    if tool is None or not isinstance(call.arguments, str) or call.is_text:
        return call

    arguments = _restored_text(tool.form, call.arguments, limits)
    return call if arguments is call.arguments else replace(call, arguments=arguments)


def _restored_text(form: SentForm, text: str, limits: Limits) -> str:
    """Return the JSON of the declared value; the same text if it is not JSON, or unchanged."""
    if form.restored is None:
        return text

    value = decode(text, limits)
    if isinstance(value, Invalid):
        return text

    declared = form.restored(value)
    return text if declared == value else json.dumps(declared, ensure_ascii=False)
