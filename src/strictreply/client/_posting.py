"""What the SDK's ``create`` would post for some keywords, made past its type-driven transform: the same, byte for byte.

Nothing is sent here, and where it is sent from is not known here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from json import JSONEncoder
from typing import Any, NoReturn

from strictreply.client._sdk_responses import is_of_base
from strictreply.contract._definitions import Definitions
from strictreply.values._json import JSONObject

MAX_PLAIN_NODES = 2_000_000
"""How many values of a request are examined; one with more, or that contains itself, takes the SDK's own way."""

_OPTIONS = {"extra_headers": "headers", "extra_query": "params", "extra_body": "extra_json", "timeout": "timeout"}
"""The keywords of ``create`` that are no members of the request, and the options of the SDK's ``post`` they become."""

SENT_ONCE = {"max_retries": 0}

_MAX_FORMS = 256
"""For how many sets of keywords it is kept how ``create`` posts them."""

_MAX_TEXTS = 8
"""For how many lists of tools their encoded text is kept: those of the contracts in use, and of narrowed requests."""


class Posts:
    """What ``create`` gives to ``post``, learnt from it by the names of the keywords, and not by their values."""

    __slots__ = ("_forms", "_texts")

    def __init__(self) -> None:
        self._forms: dict[tuple[object, ...], JSONObject] = {}
        self._texts: dict[tuple[int, ...], tuple[tuple[JSONObject, ...], str]] = {}

    def of(self, sender: Any, keywords: JSONObject) -> JSONObject | None:
        """Return what ``create`` would give to ``post``: plain JSON as it is, anything else as the SDK transforms it.

        What it gives for keywords of the same names is kept, as far as it does not depend on their values. None when
        it refuses them, or posts in a way that is not known to us.
        """
        members = {name: value for name, value in keywords.items() if name not in _OPTIONS}
        plain = {name: value for name, value in members.items() if _is_plain(value)}
        is_plain, create = len(plain) == len(members), type(sender).create
        names = (create, *members, bool(members.get("stream"))) if is_plain else None
        form = None if names is None else self._forms.get(names)
        if form is None:
            form = _form_of(sender.create, members, plain)
            if form is None:
                return None
            if names is not None and len(self._forms) < _MAX_FORMS:
                self._forms[names] = form
        options = form["options"] | SENT_ONCE
        for name in _OPTIONS.keys() & keywords.keys():
            if name == "timeout" or keywords[name] is not None:
                options[_OPTIONS[name]] = keywords[name]
        body = {name: plain.get(name, value) for name, value in form["body"].items()}
        if is_plain and type(body.get("tools")) is Definitions and _takes_bytes(sender._client, options):  # noqa: SLF001
            return form | {"body": None, "content": self._encoded(body), "options": options}
        return form | {"body": body, "options": options}

    def _encoded(self, body: JSONObject) -> bytes:
        """Return a body as the SDK encodes it; of the tools that were declared the text is kept."""
        key = tuple(map(id, body["tools"]))  # what is kept keeps its identity
        kept = self._texts.get(key)
        if kept is None:
            kept = self._texts[key] = (*body["tools"],), _as_text(body["tools"])
            if len(self._texts) > _MAX_TEXTS:
                self._texts.pop(next(iter(self._texts)), None)
        written = {name: kept[1] if name == "tools" else _as_text(value) for name, value in body.items()}
        return f"{{{','.join(f'{_as_text(name)}:{text}' for name, text in written.items())}}}".encode()


class _SentNothing(Exception):
    """Raised in the place of sending, with what would have been sent."""

    def __init__(self, sent: JSONObject) -> None:
        super().__init__()
        self.sent = sent


class _Sendless:
    """A namespace that sends nothing: the SDK's methods are run on it for what they would send, and complain of."""

    def _post(self, path: str, **sent: Any) -> NoReturn:
        raise _SentNothing({"path": path, **sent})


def sent_by(method: Any, keywords: JSONObject) -> JSONObject:
    """Return what a method of the SDK would send; raises what it raises for its keywords."""
    if isinstance(keywords.get("tools"), Iterator):
        keywords["tools"] = list(keywords["tools"])
    try:
        called = method.__func__(_Sendless(), **keywords)
        if inspect.iscoroutine(called):
            called.send(None)
    except _SentNothing as nothing:
        return nothing.sent
    raise TypeError("this method of the SDK sends its request in a way that cannot be guarded; call create()")


def _form_of(create: Any, members: JSONObject, plain: JSONObject) -> JSONObject | None:
    """Return what the SDK's ``create`` gives to ``post``, with an empty value for each plain one; None as told above.

    Any error is the caller's to see from ``create`` itself.
    """
    stubs = {name: value if type(value) in _SCALARS else type(value)() for name, value in plain.items()}
    try:
        form = sent_by(create, members | stubs)
    except Exception:  # noqa: BLE001
        return None
    body, options = form.get("body"), form.get("options")
    return form if isinstance(body, dict) and isinstance(options, dict) and plain.keys() <= body.keys() else None


_as_text = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _takes_bytes(client: Any, options: JSONObject) -> bool:
    """Return whether a client sends a body that is encoded, and nothing of the SDK's reads or changes it on the way.

    Azure's makes the address of what is in it, a subclass may make headers of it. Headers may say that it is sent
    otherwise.
    """
    kind = type(client)
    is_read = "extra_json" in options or not _READING.isdisjoint(vars(client)) or len(options.get("headers", ())) > 1
    return not is_read and all(is_of_base(getattr(kind, name)) for name in _READING) and _has_content(kind.post)


_READING = frozenset({"_build_request", "_build_headers"})
"""The methods that are given what is sent before it is encoded."""


@cache
def _has_content(post: Any) -> bool:
    return "content" in inspect.signature(post).parameters


def _is_plain(value: Any) -> bool:
    """Return whether a value is JSON at every level, without recursion; a value that contains itself is not."""
    if type(value) is Definitions:
        return True
    pending, left = [value], MAX_PLAIN_NODES
    while pending:
        if left < 0:
            return False
        one = pending.pop()
        kind = type(one)
        if kind is dict:
            if not _STR.issuperset(map(type, one)):
                return False
            pending.extend(one.values())
            left -= len(one)
        elif kind is list:
            pending.extend(one)
            left -= len(one)
        elif kind not in _SCALARS:
            return False
    return True


_STR = frozenset({str})
_SCALARS = frozenset({str, int, float, bool, type(None)})
