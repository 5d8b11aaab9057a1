"""A cache of what requests demand of their replies, because programs repeat the same demands."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import replace

from strictreply.contract._contract import Contract
from strictreply.retry._next_request import undressed
from strictreply.retry._shaping import shaped
from strictreply.values._requests import AnswerFormat, Choice, Request

MAX_KEPT = 64
"""The most kinds of requests in the cache."""

MAX_KEPT_CHARS = 200_000
"""The longest text of a request's tools and format that serves as a key."""

Kind = tuple[Contract, str, Choice | None, object]


class KeptShapes:
    """A cache of the contracts of observed calls.

    The key is the declared contract, and the tools, choice and format of the request.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[Kind, tuple[Contract, Request]] = OrderedDict()

    def shaped(
        self, contract: Contract, request: Request, warned: set[str]
    ) -> tuple[Contract, Request]:
        """Return the contract with a request's demands, like :func:`shaped`."""
        kind = _kind_of(contract, request)
        kept = None if kind is None else self._kept.get(kind)
        if kept is not None:
            held, base = kept
            return held, replace(request, given_tools=None, choice=None, format=base.format)

        held = contract
        if not contract.parallel and not isinstance(request.parallel, bool):
            held = contract.replace(parallel=True)

        held, base = shaped(held, undressed(held, request), warned)
        if kind is not None:
            self._kept[kind] = (held, replace(base, source={}, conversation=[]))
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)

        return held, base


def _kind_of(contract: Contract, request: Request) -> Kind | None:
    """Return the cache key of a request; None if it cannot be written as a text."""
    format_ = request.format
    if request.elsewhere or not isinstance(format_, AnswerFormat | None):
        return None

    try:
        said = None if format_ is None else (format_.kind, format_.schema, format_.name)
        text = json.dumps((request.given_tools, said))
    except (TypeError, ValueError, RecursionError):
        return None

    if len(text) > MAX_KEPT_CHARS:
        return None

    return contract, text, request.choice, request.parallel
