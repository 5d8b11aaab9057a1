"""Which part of a text that is still coming may be shown: none that may become a call."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy

from strictreply.contract._call_escapes import Unescaping
from strictreply.contract._call_search import CallSearch
from strictreply.contract._spelled_calls import may_become_call

_MOST_FIRST = 1000  # characters that are looked at for the beginning of a call


class CallWatch:
    """Follows a text, and says up to where it may be shown.

    A text is held from any marker on that may begin a call; with ``holds_first`` also at its
    beginning, or behind its thought, as long as it may become nothing but calls there.
    """

    def __init__(self, tools: Collection[str], *, holds_first: bool = True) -> None:
        self._tools = tools
        self._search = CallSearch(tools)
        self._unescaping = Unescaping()
        self._meant: CallSearch | None = None  # of the text as it is meant, once that is another
        self._size = 0
        self._hidden: list[str] = []  # the text from _shown on
        self._shown = 0
        self._is_behind_thought = not holds_first

        # where calls alone may begin; None once it is more than that
        self._begin: int | None = 0 if holds_first else None
        self._first = ""  # the text from there on
        self._is_closed = False

    def feed(self, piece: str) -> int:
        """Take one more piece; return how many characters of the whole text may be shown."""
        if self._is_closed or not piece:
            return self._shown

        self._size += len(piece)
        self._hidden.append(piece)
        came, meant = self._unescaping.feed(piece)
        if self._meant is None and self._unescaping.has_changed:
            self._meant = copy(self._search)
        if self._meant is not None:
            self._meant.feed(meant)

        self._search.feed(came)
        if self._begin is not None:
            self._first += piece

        thought_end = self._search.thought_end
        if thought_end is not None and not self._is_behind_thought:
            self._is_behind_thought = True
            self._first = "".join(self._hidden)[thought_end - self._shown :]
            if self._begin is None:  # the thought was shown already
                self._begin = thought_end

        self._show(self._up_to())
        return self._shown

    def _up_to(self) -> int:
        held = self._search.held
        if self._meant is not None:
            held = min(held, self._unescaping.place(self._meant.held))
        if self._begin is None:
            return held
        if self._first.strip() and not may_become_call(self._first, self._tools):
            self._begin = None
            return held

        # calls, as far as anybody can tell
        self._is_closed = len(self._first) > _MOST_FIRST
        return min(held, self._begin)

    def _show(self, size: int) -> None:
        if size <= self._shown:
            return

        if size == self._size:
            self._hidden.clear()
        else:
            self._hidden = ["".join(self._hidden)[size - self._shown :]]
        self._shown = size
