"""Declarations compiled once: what was made of a class, a function or a definition is found again at the next call.

Programs name their tools and their ``response_format`` anew with every request; to compile them each time costs more
than the request itself.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from types import FunctionType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

KEPT_CHARS = 1_000_000
"""The length of the JSON texts whose results are kept: some thousand tools, about 50 MB of compiled schemas."""

KEPT_REQUESTS = 4
"""How many requests as large as the current one are kept in any case, so that no number of tools is too large."""

_ATTRIBUTE = "__strictreply_compiled__"
_READ = ("__name__", "__doc__", "__defaults__", "__kwdefaults__", "__code__", "__pydantic_core_schema__")
"""What a declaration reads of a class or function, and a program may replace while it runs."""


class _Kept:
    """What was made of one class or function: by how it was asked for, with the state that it was made from."""

    __slots__ = ("made", "owner")

    def __init__(self, owner: object = None) -> None:
        self.owner = owner
        self.made: dict[tuple[object, ...], tuple[list[object], Any]] = {}

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        """Travel empty: a class or function that is pickled by value, or copied, takes its attributes along."""
        return _Kept, ()


def kept_on(owner: object, how: tuple[object, ...], make: Callable[[], T]) -> T:
    """Return what ``make`` makes of a class or function; it is kept in an attribute of that, and dies with it.

    ``how`` is everything else that the result depends on. For what cannot hold an attribute it is made each time.
    """
    if not isinstance(owner, type | FunctionType):
        return make()
    kept = vars(owner).get(_ATTRIBUTE)
    if not isinstance(kept, _Kept) or kept.owner is not owner:  # functools.wraps copies attributes
        kept = _Kept(owner)
        try:
            setattr(owner, _ATTRIBUTE, kept)
        except (AttributeError, TypeError):  # a built-in type, or a metaclass that refuses
            return make()
    known = kept.made.get(how)
    if known is not None and all(
        getattr(owner, name, None) is value for name, value in zip(_READ, known[0], strict=True)
    ):
        result: T = known[1]
        return result
    made = make()
    kept.made[how] = [getattr(owner, name, None) for name in _READ], made
    return made


class ByText(Generic[T]):
    """What was made of JSON texts, those used last; safe to share between threads.

    A text is all that tells one definition from another: programs build them anew, and may change them in place.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: OrderedDict[tuple[str, tuple[object, ...]], T] = OrderedDict()
        self._chars = 0

    def get(self, value: object, how: tuple[object, ...], make: Callable[[Any], T]) -> tuple[T, int]:
        """Return what ``make`` makes of plain JSON, and the length of its text; see :func:`kept_on` for ``how``.

        What is no plain JSON is given to ``make`` as it is, each time.
        """
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return make(value), 0
        key = (text, how)
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key], len(text)
        made = make(json.loads(text))
        with self._lock:
            if key not in self._made:
                self._made[key] = made
                self._chars += len(text)
            return self._made[key], len(text)

    def trim(self, used: Iterable[int]) -> None:
        """Let go of what was used longest ago; ``used`` are the lengths of the texts of the request at hand."""
        most = max(KEPT_CHARS, KEPT_REQUESTS * sum(used))
        with self._lock:
            while self._chars > most:
                (text, _), _ = self._made.popitem(last=False)
                self._chars -= len(text)
