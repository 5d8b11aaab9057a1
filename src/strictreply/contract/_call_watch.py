"""Decides which part of an arriving text may be shown: no part that may become a call."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy

from strictreply.contract._call_escapes import Unescaping
from strictreply.contract._call_search import CallSearch
from strictreply.contract._spelled_calls import may_become_call

_MOST_FIRST = 1000  # characters that are examined for the beginning of a call


class CallWatch:
    """Follows an arriving text, and says up to where it may be shown.

    Text is held back from any marker that may begin a call. With ``holds_first`` it is also held
    back at the beginning, or after a thought, as long as it may consist of calls only.
    """

    def __init__(self, tools: Collection[str], *, holds_first: bool = True) -> None:
        self._tools = tools
        self._search = CallSearch(tools)
        self._unescaping = Unescaping()
        self._meant: CallSearch | None = None  # of the text without escapes, if that differs
        self._size = 0
        self._hidden: list[str] = []  # the text from _shown on
        self._shown = 0
        self._is_behind_thought = not holds_first

        # where a text of only calls may begin; None if there is other text
        self._begin: int | None = 0 if holds_first else None
        self._first = ""  # the text from there on
        self._is_closed = False

    def feed(self, piece: str) -> int:
        """Add one more piece; return how many characters of the whole text may be shown."""
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
            if self._begin is None:  # the thought was already shown
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

        # so far the text consists of calls
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
