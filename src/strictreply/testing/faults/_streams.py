"""Faults of an event stream: it breaks off, never ends, or its events are none (WHATWG HTML section 9.2).

What whole events say that does not add up stands in :mod:`strictreply.testing.faults._deltas`.
"""

from __future__ import annotations

import json

from strictreply.testing._sse import DONE, chunks, event
from strictreply.testing._steps import CANARY
from strictreply.testing._targets import Target
from strictreply.testing._wire import Ending, HTTPReply
from strictreply.testing.faults._responses import as_sent
from strictreply.testing.faults._streaming import chunk, halves, said, stream, stream_fault, whole
from strictreply.values._json import JSON

_ERROR: JSON = {"message": f"The server had an error ({CANARY})", "type": "server_error", "param": None, "code": None}
_COMMENT = b": %b\n\n" % (b"still working " * 1000)


def _amid(target: Target, *events: bytes) -> HTTPReply:
    """Stream the good reply with these events in the middle."""
    before, after = halves(target)
    return stream(*before, *events, *after)


@stream_fault("reply.broken_off")
def stream_cut_in_event(target: Target) -> HTTPReply:
    """The connection is closed in the middle of an event."""
    before, after = halves(target)
    return stream(*before, after[0][: len(after[0]) // 2], ending=Ending.CUT)


@stream_fault("reply.broken_off")
def stream_cut_in_character(target: Target) -> HTTPReply:
    """The connection is closed in the middle of a character of two bytes."""
    before, _ = halves(target)
    last = json.dumps(chunk(target, said(target, "é")), ensure_ascii=False).encode()
    return stream(*before, b"data: " + last.partition(b"\xa9")[0], ending=Ending.CUT)  # é is C3 A9


@stream_fault("reply.broken_off")
def stream_cut_between_events(target: Target) -> HTTPReply:
    """The connection is closed between two events."""
    return stream(*halves(target)[0], ending=Ending.CUT)


@stream_fault("reply.broken_off")
def stream_reset(target: Target) -> HTTPReply:
    """The connection is reset between two events."""
    return stream(*halves(target)[0], ending=Ending.RESET)


@stream_fault("reply.broken_off")
def stream_hang(target: Target) -> HTTPReply:
    """No event comes any more, and the connection stays open."""
    return stream(*halves(target)[0], ending=Ending.HANG)


@stream_fault("reply.broken_off")
def stream_comments_forever(target: Target) -> HTTPReply:
    """Comments keep the connection busy for ever, and no event comes any more."""
    return stream(*halves(target)[0], _COMMENT, ending=Ending.CUT, endless=True)


@stream_fault("reply.broken_off")
def stream_ends_early(target: Target) -> HTTPReply:
    """The response ends as HTTP wants it, in the middle of the reply."""
    return stream(*halves(target)[0])


@stream_fault("reply.broken_off")
def stream_without_done(target: Target) -> HTTPReply:
    """Everything comes but ``[DONE]``."""
    return stream(*whole(target)[:-1])


@stream_fault("reply.broken_off")
def stream_without_finish(target: Target) -> HTTPReply:
    """Everything comes but the chunk with the finish_reason."""
    *events, _, done = whole(target)
    return stream(*events, done)


@stream_fault("reply.broken_off")
def stream_empty(_: Target) -> HTTPReply:
    """The response ends without an event."""
    return stream()


@stream_fault("envelope.choices")
def stream_done_at_once(_: Target) -> HTTPReply:
    """``[DONE]`` comes without a chunk."""
    return stream(DONE)


@stream_fault("envelope.malformed")
def stream_not_json(target: Target) -> HTTPReply:
    """The data of an event is a text, not JSON."""
    return _amid(target, b"data: %b is busy\n\n" % CANARY.encode())


@stream_fault("envelope.malformed")
def stream_prefix_twice(target: Target) -> HTTPReply:
    """A proxy put ``data:`` before what had it already."""
    return stream(*(b"data: " + event for event in whole(target)))


@stream_fault("envelope.malformed")
def stream_events_run_together(target: Target) -> HTTPReply:
    """No blank line stands between the events, so that they are one."""
    return stream(*(event.removesuffix(b"\n") for event in whole(target)), b"\n")


@stream_fault("json.encoding")
def stream_not_utf8(target: Target) -> HTTPReply:
    """An event holds a byte that is not UTF-8."""
    return _amid(target, event(chunk(target, said(target, "e"))).replace(b'"scripted"', b'"script\xe9d"'))


@stream_fault("envelope.malformed")
def stream_not_object(target: Target) -> HTTPReply:
    """The data of an event is a JSON array."""
    return _amid(target, event([CANARY]))


@stream_fault("envelope.error")
def stream_error(target: Target) -> HTTPReply:
    """An error comes in the middle of the reply, and ends it."""
    return stream(*halves(target)[0], event({"error": _ERROR}), DONE)


@stream_fault("envelope.error")
def stream_error_event(target: Target) -> HTTPReply:
    """An event of the type ``error`` comes in the middle of the reply, its data the error itself."""
    return stream(*halves(target)[0], b"event: error\n" + event(_ERROR), DONE)


@stream_fault("envelope.malformed")
def stream_html_page(_: Target) -> HTTPReply:
    """A proxy's HTML page comes in place of the stream."""
    page = f"<html><head><title>Sign in</title></head><body>{CANARY}</body></html>\r\n"
    return HTTPReply(200, {"Content-Type": "text/html"}, (page.encode(),))


@stream_fault("envelope.malformed")
def stream_plain_json(target: Target) -> HTTPReply:
    """The completion comes as plain JSON, though a stream was asked for."""
    return HTTPReply(200, {"Content-Type": "application/json"}, (as_sent(target),))


@stream_fault("envelope.malformed")
def stream_json_lines(target: Target) -> HTTPReply:
    """The chunks come as JSON lines, not as events."""
    lines = (json.dumps(one).encode() + b"\n" for one in chunks(target.clean))
    return HTTPReply(200, {"Content-Type": "application/x-ndjson"}, tuple(lines), framing="chunked")


@stream_fault("json.too_large")
def stream_endless_event(target: Target) -> HTTPReply:
    """The data of an event goes on for ever."""
    head, _ = halves(target)
    return stream(*head, b'data: {"id": "', b"a" * (1 << 16), ending=Ending.CUT, endless=True)


@stream_fault("json.too_large")
def stream_endless_text(target: Target) -> HTTPReply:
    """The arguments or the answer go on for ever."""
    more = event(chunk(target, said(target, " " * (1 << 14))))
    return stream(*halves(target)[0], more, ending=Ending.CUT, endless=True)


@stream_fault("envelope.malformed")
def stream_goes_on_after_finish(target: Target) -> HTTPReply:
    """More text comes after the chunk with the finish_reason."""
    *events, done = whole(target)
    return stream(*events, event(chunk(target, said(target, f" {CANARY}"))), done)


@stream_fault("envelope.malformed")
def stream_finishes_twice(target: Target) -> HTTPReply:
    """The chunk with the finish_reason comes twice."""
    *events, finish, done = whole(target)
    return stream(*events, finish, finish, done)
