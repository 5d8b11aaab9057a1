"""Searches a text for calls that the model wrote, by the rows of :data:`TEMPLATES`.

A call is a marker of a template followed by the name of a declared tool, outside of quotations and
finished thoughts. The search takes linear time, also for a text in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from copy import copy
from dataclasses import dataclass
from functools import cache

from strictreply.contract._call_escapes import unescaped
from strictreply.contract._call_forms import Behind, Piece, Reader, State, decoded_at, pieces_of
from strictreply.contract._call_templates import TEMPLATES, THOUGHTS, Template
from strictreply.contract._quoting import Quoting

_LONG = 500  # a longer open part after a marker is examined again only when it has doubled
_BLANKS = re.compile(r"\s*")
# what may be between a name and the JSON of its arguments
_HEAD = re.compile(r"(?:\s{1,100}|<\|[^|<>]{1,30}\|>|\w{1,20}){0,20}")
# a sentence that continues and ends after a call: it only mentions the call
_GOES_ON = re.compile(
    r"[.,;:!?)](?=\s|\Z)(?!\s*[\[{<])|[\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f]"
    r"|[ \t]+[a-z\u2013\u2014-][^\n]{0,400}?[.!?:;)](?=\s|\Z)"
)


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call: where its markers start, where its name or its JSON ends, and its template.

    ``is_json`` says whether its JSON ends there.
    """

    start: int
    end: int
    template: Template
    is_json: bool = False


class _Table:
    """The markers of templates and thoughts, and their meanings."""

    def __init__(self, templates: Iterable[Template]) -> None:
        self.rows: dict[str, list[tuple[Template, tuple[tuple[Piece, ...], ...]]]] = {}
        self.around: set[str] = set()
        for template in templates:
            forms = tuple(map(pieces_of, template.then))
            self.around.update(template.around)
            for marker in template.opens + template.opens_first:
                self.rows.setdefault(marker, []).append((template, forms))

        self.thoughts = {thought.begins: thought.ends for thought in THOUGHTS}
        self.lone_ends = frozenset(thought.ends for thought in THOUGHTS if thought.is_begun)

        ends = self.thoughts.values()
        markers = sorted({*self.rows, *self.around, *self.thoughts, *ends}, key=len)[::-1]
        self.longest = len(markers[0])
        self.marker = re.compile("|".join(map(re.escape, markers)))
        firsts = {re.escape(marker[0]) for marker in markers}
        self.first = re.compile("|".join([*firsts, "\n"]))
        self.begun = frozenset(
            marker[:size] for marker in markers for size in range(1, len(marker))
        )

    def is_begun(self, text: str, at: int) -> bool:
        """Return whether the end of a text may become another marker."""
        return len(text) - at < self.longest and text[at:] in self.begun


_table = cache(_Table)


class CallSearch:
    """Searches for calls in a text that arrives in pieces, or is complete.

    ``calls`` are the calls that were found. ``held`` is the position from which the text must not
    be shown, because a call starts or may start there. ``thought_end`` is where the first thought
    ended.
    """

    def __init__(self, tools: Container[str], templates: tuple[Template, ...] = TEMPLATES) -> None:
        self._tools = tools
        self._table = _table(templates)
        self._quoting = Quoting()

        self._text = ""  # the text that is searched; it starts at _start of the whole text
        self._start = 0
        self._at = 0  # up to where it was searched
        self._unread: list[str] = []  # the text before it that the quoting has not read
        self._coming: list[str] = []
        self._size = 0
        self._enough = 0  # the size of the whole text from which it is searched again

        self._run: int | None = None  # the starts of markers that are not calls by themselves
        self._run_end = 0
        self._stays = False  # special tokens among them, which prose does not have
        self._is_past_first = False
        self._thought_closes = ""
        self._thought_calls: list[FoundCall] = []

        self.calls: list[FoundCall] = []
        self.held = 0
        self.thought_end: int | None = None
        self.last_thought_end = 0

    def __copy__(self) -> CallSearch:
        """Return an independent copy of the search, which continues from here."""
        other = CallSearch.__new__(CallSearch)
        vars(other).update(
            vars(self)
            | {
                "_quoting": copy(self._quoting),
                "_unread": list(self._unread),
                "_coming": list(self._coming),
                "_thought_calls": list(self._thought_calls),
                "calls": list(self.calls),
            }
        )
        return other

    def feed(self, piece: str) -> None:
        """Add one more piece of the text; after a call, the search stops."""
        self._size += len(piece)
        if self.calls:
            return

        # most of a text has no character that starts a marker
        is_plain = self._run is None and not self._thought_calls
        if is_plain and not self._text and self._table.first.search(piece) is None:
            self._unread.append(piece)
            self._start += len(piece)
            self.held = self._start
            return

        self._coming.append(piece)
        if self._size >= self._enough:
            self._search(is_whole=False)

    def read(self, text: str) -> None:
        """Read a complete text."""
        self._coming.append(text)
        self._search(is_whole=True)

        # an unfinished thought, or one without text after it, was not a thought
        if not text[self.last_thought_end :].strip() or self._thought_closes:
            self.calls = [*self._thought_calls, *self.calls]

    def _search(self, *, is_whole: bool) -> None:
        text = self._text + "".join(self._coming)
        self._text = text
        self._coming = []
        reader = Reader(text, self._tools, is_whole=is_whole)
        read = 0  # up to where the quoting has read

        found = self._table.marker.search(text, self._at)
        while found is not None:
            at = found.start()
            behind = self._table.marker.search(text, found.end())
            limit = len(text) if behind is None else behind.start()

            if not is_whole and self._table.is_begun(text, at):
                self._keep(at, read)
                return

            self._forget(text, at)
            read = self._let_read(text, read, at)
            ends_thought = found[0] == self._thought_closes
            if ends_thought or not self._quoting.is_open:
                if not self._take(found, reader, limit):
                    self._keep(at, read)
                    return
                if self.calls and not is_whole:
                    self.held = self.calls[0].start
                    return
            else:
                self._at = found.end()

            found = (
                behind
                if behind is None or behind.start() >= self._at
                else (self._table.marker.search(text, self._at))
            )

        self._keep(self._first_begun(text, is_whole=is_whole), read)

    def _take(self, found: re.Match[str], reader: Reader, limit: int) -> bool:
        """Handle a marker outside of quotations; return False if more text is needed."""
        marker = found[0]
        at = self._start + found.start()
        self._at = found.end()
        rows = self._table.rows.get(marker, [])

        is_open = False
        for template, forms in rows:
            if marker in template.opens_first and not self._is_first(found):
                continue

            behind = _first_call(reader, forms, found.end(), limit)
            is_open |= behind.state is State.OPEN
            if behind.state is State.CALL:
                self._add(at, behind, template)
                return True

        if is_open:
            self._at = found.start()
            return False

        if rows or marker in self._table.around:
            self._join_run(marker, at)
        elif marker == self._thought_closes or (
            marker in self._table.lone_ends and not self._thought_closes
        ):
            self._end_thought(self._start + found.end())
        elif not self._thought_closes:
            self._thought_closes = self._table.thoughts.get(marker, "")

        return True

    def _is_first(self, found: re.Match[str]) -> bool:
        """Return whether only a thought precedes a marker."""
        if self._is_past_first:
            return False

        before = self.last_thought_end - self._start
        self._is_past_first = before < 0 or bool(found.string[before : found.start()].strip())
        return not self._is_past_first

    def _add(self, at: int, behind: Behind, template: Template) -> None:
        start = at if self._run is None else self._run
        call = FoundCall(start, self._start + behind.end, template, behind.is_json)
        calls = self._thought_calls if self._thought_closes else self.calls
        calls.append(call)

        self._at = max(self._at, behind.end)
        self._run = None
        self._stays = False

    def _join_run(self, marker: str, at: int) -> None:
        if self._run is None:
            self._run = at

        self._run_end = self._start + self._at
        is_token = "|" in marker or "\uff5c" in marker
        self._stays |= is_token and marker in self._table.around

    def _end_thought(self, end: int) -> None:
        if self.thought_end is None:
            self.thought_end = end

        self.last_thought_end = end
        self._thought_closes = ""
        self._quoting = Quoting()
        self._is_past_first = False
        self._run = None
        self._stays = False

    def _forget(self, text: str, at: int) -> None:
        """Forget markers that are followed by prose, and the calls of a finished thought."""
        if self._run is not None and not self._stays:
            behind = text[max(0, self._run_end - self._start) : at]
            if behind.strip():
                self._run = None

        if self._thought_calls and not self._thought_closes:
            behind = text[max(0, self.last_thought_end - self._start) : at]
            if behind.strip():
                self._thought_calls = []

    def _let_read(self, text: str, read: int, at: int) -> int:
        """Let the quoting read up to ``at``."""
        self._quoting.read("".join([*self._unread, text[read:at]]))
        self._unread = []
        return at

    def _keep(self, at: int, read: int) -> None:
        """Keep the text from ``at`` on, where a marker starts or may start."""
        text = self._text
        self._forget(text, at)

        # quotation signs never continue in the next line
        line = text.rfind("\n", read, at) + 1
        if line:
            read = self._let_read(text, read, line)
        if at > read:
            self._unread.append(text[read:at])

        self._text = text[at:]
        self._start += at
        self._at = 0

        size = len(self._text)
        self._enough = self._size + size if size > _LONG else 0
        waiting = [call.start for call in self._thought_calls[:1]]
        if self._run is not None:
            waiting.append(self._run)

        self.held = min([self._start, *waiting])

    def _first_begun(self, text: str, *, is_whole: bool) -> int:
        """Return where a marker may start at the end of a text."""
        if not is_whole:
            last = max(self._at, len(text) - self._table.longest)
            for found in self._table.first.finditer(text, last):
                if self._table.is_begun(text, found.start()):
                    return found.start()

        return len(text)


def _first_call(
    reader: Reader, forms: tuple[tuple[Piece, ...], ...], at: int, limit: int
) -> Behind:
    """Return the call that the first form reads; else whether a call is still possible."""
    left = Behind(State.NOTHING)
    for form in forms:
        behind = reader.read(form, at, limit)
        if behind.state is State.CALL:
            return behind
        if behind.state is State.OPEN:
            left = behind

    return left


def holds_call(
    text: str, tools: Container[str], templates: tuple[Template, ...] = TEMPLATES
) -> bool:
    """Return whether a complete text contains a call of a declared tool, not a mention of one."""
    meant = unescaped(text)
    if _holds_call(text, tools, templates):
        return True

    return meant != text and _holds_call(meant, tools, templates, with_arguments=True)


def _holds_call(
    text: str,
    tools: Container[str],
    templates: tuple[Template, ...],
    *,
    with_arguments: bool = False,
) -> bool:
    if _table(templates).marker.search(text) is None:
        return False

    search = CallSearch(tools, templates)
    search.read(text)
    ends = _Ends(text)

    # a thought whose beginning the template wrote, followed by text
    thought_end = search.thought_end or 0
    if not text[thought_end:].strip():
        thought_end = 0

    return any(
        not ends.go_on(call)
        and (call.start >= thought_end or ends.of(call) > thought_end)
        and not (with_arguments and ends.is_bare(call))
        for call in search.calls
    )


class _Ends:
    """The ends of the calls in a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last: dict[str, int] = {}

    def go_on(self, call: FoundCall) -> bool:
        """Return whether the sentence continues after a call: then it only mentions the call."""
        return _GOES_ON.match(self._text, self.of(call)) is not None

    def is_bare(self, call: FoundCall) -> bool:
        """Return whether a call ends directly after its name."""
        return any(self._text.endswith(close, 0, call.end) for close in call.template.closes)

    def of(self, call: FoundCall) -> int:
        """Return where a call ends: after its JSON, or after the last of its closing markers."""
        text = self._text
        end = call.end
        if not call.is_json:
            head = _HEAD.match(text, end)
            at = head.end() if head else end
            if not text.startswith("{", at):
                return max([end, *(self._last_end(close) for close in call.template.closes)])

            decoded = decoded_at(text, at)
            if decoded is None:
                return len(text)

            end = decoded[1]

        return self._behind_closing(end, call.template)

    def _behind_closing(self, end: int, template: Template) -> int:
        """Return the end of the markers that close a call whose JSON ends here."""
        closes = (*template.closes, "```")
        while True:
            blanks = _BLANKS.match(self._text, end)
            at = blanks.end() if blanks else end
            close = next((one for one in closes if self._text.startswith(one, at)), None)
            if close is None:
                return end

            end = at + len(close)

    def _last_end(self, close: str) -> int:
        if close not in self._last:
            self._last[close] = self._text.rfind(close) + len(close)

        return self._last[close]
