"""Where a reply is written: the response around it, native tool calls, or a JSON union in the content.

``judge`` is the way in; it is pure, and every path from a reply to a verdict goes through it.
"""

from __future__ import annotations

from strictreply.contract._judge_native import judge_message, without_promised_call
from strictreply.contract._judge_text import judge_content
from strictreply.contract._terms import Terms
from strictreply.values._limits import Work
from strictreply.values._replies import Invalid, Verdict
from strictreply.wires._chat import Opened, open_envelope, peek

__all__ = ["judge", "judge_opened", "open_envelope", "peek"]


def judge(terms: Terms, response: object) -> Verdict:
    """Judge a response or a message by the terms: JSON Schema and shape, no user checks, no I/O."""
    opened = open_envelope(response)
    return opened if isinstance(opened, Invalid) else judge_opened(terms, opened)


def judge_opened(terms: Terms, opened: Opened) -> Verdict:
    """Judge the message inside a response that was already opened; all of it shares one budget of work."""
    if terms.channel == "native":
        verdict = judge_message(terms, opened.message, Work())
        return without_promised_call(terms, opened.message, verdict) if opened.promised else verdict
    return judge_content(terms, opened.message, Work())
