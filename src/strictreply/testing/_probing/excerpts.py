"""What a fault looks like on the wire, abridged and safe to print: the one place where a served reply becomes words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from os.path import commonprefix

from strictreply.testing._rendering import EVENT_STREAM
from strictreply.testing._sse import events
from strictreply.testing._wire import Ending, HTTPReply, Pause, Served
from strictreply.values._issues import printable
from strictreply.values._json import JSON

MAX_CHARS = 400
"""How much of a reply is shown unless told otherwise."""

MAX_PLACES = 6
MAX_MEMBERS = 3
"""In how many members an object may differ before it is shown as a whole."""

_HEAD_SHARE = 0.7
_CONTEXT = 20
"""How many characters of what is good stand beside what is not."""

_MESSAGE = "choices[0].message."
_MISSING = object()
_AROUND = re.compile(r'"id": "[^"]*", "object": "[^"]*", "created": [0-9]+, "model": "[^"]*", ')
_REPEATED = re.compile(r', "logprobs": null, "finish_reason": null')
_ENDINGS = {
    Ending.CUT: "the connection is closed before the end",
    Ending.RESET: "the connection is reset",
    Ending.HANG: "nothing more comes",
}


def excerpt(served: Served, clean: JSON = None, limit: int = MAX_CHARS) -> str:
    """Show what is served, one line a place, each of at most some ``limit`` characters.

    Of a completion only what differs from the ``clean`` one is shown: a text as it is (``content reads …``), anything
    else as JSON (``finish_reason = "length"``). Of an HTTP response it is the status, the headers and the body.
    """
    if isinstance(served, HTTPReply):
        return "\n".join(_response(served, clean, limit))
    found = list(_differences(clean, served, ""))
    lines = [f"{_named(path)} {_told(value, good, limit)}" for path, good, value in found[:MAX_PLACES]]
    lines += [f"[more places: {len(found) - MAX_PLACES}]"] if len(found) > MAX_PLACES else []
    return "\n".join(lines) or "a good reply, had the request not forbidden it"


def abridged(text: str, limit: int, good: str = "") -> str:
    """Shorten a text of more than ``limit`` characters: first what it begins and ends with like the ``good`` one."""
    if len(text) <= limit:
        return text
    total = f"({len(text):,} characters)"
    start = max(0, _in_common(good, text) - _CONTEXT)
    rest = text[start:]
    after = max(0, _in_common(good[start:][::-1], rest[::-1]) - _CONTEXT)
    shown = rest[: len(rest) - after]
    lead, trail = "… " * bool(start), f" … {total}" * bool(after or start)
    if len(shown) <= limit:
        return f"{lead}{shown}{trail}"
    head = int(limit * _HEAD_SHARE)
    return f"{lead}{shown[:head]} … {total} … {shown[head - limit :]}"


def _in_common(one: str, other: str) -> int:
    """Count the characters that two texts have in common at their beginning."""
    return len(commonprefix([one, other]))  # noqa: RUF071 - characters are what is compared


def _differences(clean: object, served: object, path: str) -> Iterator[tuple[str, object, object]]:
    """Find the smallest parts in which what is served differs: the path, what would be good there, and what is."""
    if _equal(clean, served):
        return
    parts = list(_parts(clean, served, path))
    for inner, one, other in parts:
        yield from _differences(one, other, inner)
    if not parts:
        yield path, clean, served


def _parts(clean: object, served: object, path: str) -> Iterator[tuple[str, object, object]]:
    """Give the parts of two objects or two arrays side by side; none when the two are to be shown as wholes."""
    if isinstance(clean, dict) and isinstance(served, dict):
        pairs = {name: (clean.get(name, _MISSING), served.get(name, _MISSING)) for name in {**clean, **served}}
        if sum(not _equal(*pair) for pair in pairs.values()) <= MAX_MEMBERS:
            yield from ((f"{path}.{name}".lstrip("."), *pair) for name, pair in pairs.items())
    elif isinstance(clean, list) and isinstance(served, list) and clean and served:
        items = enumerate(zip_longest(clean, served, fillvalue=_MISSING))
        yield from ((f"{path}[{index}]", one, other) for index, (one, other) in items)


def _equal(clean: object, served: object) -> bool:
    """Tell whether two parts are the same JSON, or both are missing."""
    if clean is _MISSING or served is _MISSING:
        return clean is served
    return json.dumps(clean) == json.dumps(served)


def _named(path: str) -> str:
    """Name a place as a person would: from the message on, where it is in there."""
    return path.removeprefix(_MESSAGE) or "the response"


def _told(value: object, good: object, limit: int) -> str:
    """Show one value: a text as the model wrote it, anything else as JSON."""
    if value is _MISSING:
        return "is missing"
    if isinstance(value, str):
        wanted = good if isinstance(good, str) else ""
        return f"reads {printable(abridged(value, limit, wanted))}" if value else "is empty"
    return f"= {printable(abridged(json.dumps(value, ensure_ascii=False), limit))}"


def _response(reply: HTTPReply, clean: JSON, limit: int) -> Iterator[str]:
    """Show an HTTP response: its head, its body, and how it ends."""
    if reply.framing != "raw" and (reply.parts or reply.ending is Ending.WHOLE):
        yield f"HTTP {reply.status}"
        told = reply.headers.items() - EVENT_STREAM.items()
        yield from (printable(f"{name}: {value}") for name, value in reply.headers.items() if (name, value) in told)
    body = reply.body.decode("ascii", "backslashreplace")
    streamed = _compact(b"".join(events(clean)).decode())
    lines = _compact(body)
    if set(lines) & set(streamed):
        yield from (printable(abridged(line, limit)) for line in _changes(streamed, lines))
    else:
        yield from map(printable, abridged(body, limit, json.dumps(clean)).splitlines())
    yield from _remarks(reply)


def _compact(stream: str) -> list[str]:
    """Split an event stream into its lines, without the members that every chunk repeats."""
    return [_REPEATED.sub("", _AROUND.sub("… ", line)) for line in stream.splitlines() if line.strip()]


def _changes(good: list[str], lines: list[str]) -> Iterator[str]:
    """Show the lines that a good stream does not have, and count the others."""
    shown = 0
    for change, begun, ended, first, last in SequenceMatcher(None, good, lines, autojunk=False).get_opcodes():
        if change == "equal":
            yield f"[lines of a good stream: {last - first}]"
            continue
        if change == "delete":
            yield f"[lines of a good stream left out: {ended - begun}]"
        yield from lines[first:last][: MAX_PLACES - shown]
        shown += last - first
    if shown > MAX_PLACES:
        yield f"[more lines: {shown - MAX_PLACES}]"


def _remarks(reply: HTTPReply) -> Iterator[str]:
    """Tell what the bytes do not show."""
    pauses = [part.seconds for part in reply.parts if isinstance(part, Pause)]
    if pauses:
        yield f"[{len(pauses)} {'pause' if len(pauses) == 1 else 'pauses'}, {sum(pauses):g} s in all]"
    if reply.endless:
        yield "[the last part again and again, without end]"
    elif reply.ending in _ENDINGS:
        yield f"[{_ENDINGS[reply.ending]}]"
