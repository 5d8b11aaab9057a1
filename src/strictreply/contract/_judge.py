"""Where a reply is written: the response around it, native tool calls, or a JSON union in the content.

``judge`` is the way in; it is pure, and every path from a reply to a verdict goes through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strictreply.contract._judge_native import judge_message, without_promised_call
from strictreply.contract._judge_text import judge_content, judge_text
from strictreply.reading._decoding import decode
from strictreply.values._limits import Work
from strictreply.values._replies import Invalid, Verdict
from strictreply.wires._chat import Opened, open_envelope

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract


def judge(contract: Contract, response: object) -> Verdict:
    """Judge a response or a message by the contract: JSON Schema and shape, no user checks, no I/O."""
    opened = open_envelope(response)
    return opened if isinstance(opened, Invalid) else judge_opened(contract, opened)


def judge_reply(contract: Contract, reply: object) -> Verdict:
    """Judge whatever a user may hold in hand: a text, a message or a completion."""
    if not isinstance(reply, str | bytes):
        return judge(contract, reply)
    if contract.channel == "text":
        return judge_text(contract, reply, Work())
    value = decode(reply, contract.limits, names=contract.names)
    return value if isinstance(value, Invalid) else judge(contract, value)


def judge_opened(contract: Contract, opened: Opened) -> Verdict:
    """Judge the message inside a response that was already opened; all of it shares one budget of work."""
    if contract.channel == "native":
        verdict = judge_message(contract, opened.message, Work())
        return without_promised_call(contract, opened.message, verdict) if opened.promised else verdict
    return judge_content(contract, opened.message, Work())
