"""What of a request may be a credential: it is on no attempt, in no story and on no cassette."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

REDACTED = "[redacted]"
"""What stands for a credential in a text."""

NOT_KEPT = "[not kept]"
"""What stands on an attempt for a keyword that may hold a credential."""

MIN_CREDENTIAL_CHARS = 8
"""A shorter credential is a placeholder (``none``, ``EMPTY``), and its letters may stand anywhere."""

_MIN_UNNAMED_CHARS = 12

_OF_TRANSPORT = frozenset(
    {
        *("extra_headers", "extra_query", "extra_body"),  # the openai SDK's own
        *("headers", "default_headers", "default_query", "query", "params", "cookies"),  # other clients'
        *("auth", "proxy", "proxies", "base_url", "api_base", "client", "http_client"),
    }
)
_CREDENTIAL = re.compile(
    r"(?i)(?:api|access|private|secret|signing|auth)[-_]?key|auth(?!or(?!iz))|cookie|credential|passphrase|passwd|"
    r"password|secret|session|signature|token(?:_provider)?$"  # not max_tokens
)
_PLAIN = re.compile(
    r"(?i)accept.*|connection|content-.*|host|idempotency-key|transfer-encoding|user-agent|x-stainless-.*|.*version.*"
)
_ADDRESS = re.compile(r"[A-Za-z0-9+.-]+://(?:(?P<user>[^/?#]*)@)?[^?#]*(?:\?(?P<query>[^#]*))?")
_BETWEEN = re.compile(r"[\s;,:=&]+")
_UNGUESSABLE = re.compile(r"(?=\S*[0-9])(?=\S*[A-Za-z])\S+")


def without_transport(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request with ``"[not kept]"`` for each keyword that says how it is sent, or is named like a credential.

    The very same mapping comes back when it has none.
    """
    hidden = {name for name in request if name in _OF_TRANSPORT or _CREDENTIAL.search(name)}
    return {name: NOT_KEPT if name in hidden else request[name] for name in request} if hidden else request


def without_credentials(words: str, cause: BaseException) -> str:
    """Return ``words`` without the credentials that the HTTP request of ``cause`` was sent with.

    Servers repeat a key that they do not take, and HTTP libraries one that no header can hold.
    """
    try:
        request = getattr(cause, "request", None)
    except RuntimeError:  # HTTP libraries raise it where an exception was given no request
        return words
    for secret in credentials_of(request):
        words = words.replace(secret, REDACTED)
    return words


def credentials_of(request: Any) -> tuple[str, ...]:
    """Collect what may be a credential in the headers and the address of an HTTP request, the longest first.

    Under a name that says so it is the value and each part of it; under any other, a value of twelve characters and
    more with letters and digits, and no blank. ``request`` has ``headers`` and ``url`` as HTTP libraries have them.
    """
    headers = getattr(request, "headers", None)
    named = [(str(name), str(headers[name])) for name in headers] if isinstance(headers, Mapping) else []
    address = _ADDRESS.match(str(getattr(request, "url", "")))
    if address is not None:
        named += [("password", unquote(address["user"] or "")), *parse_qsl(address["query"] or "")]
    found = {secret for name, value in named for secret in _secrets(name, value)}
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def _secrets(name: str, value: str) -> Iterator[str]:
    """Find what may be secret in one header, or one member of a query."""
    if _CREDENTIAL.search(name):
        parts = {*value.split(), *_BETWEEN.split(value)}
        yield from (part for part in parts if len(part) >= MIN_CREDENTIAL_CHARS)
    elif len(value) >= _MIN_UNNAMED_CHARS and _UNGUESSABLE.fullmatch(value) and not _PLAIN.fullmatch(name):
        yield value
