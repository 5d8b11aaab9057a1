"""What may be written of traffic: texts and JSON without what looks like a secret. Nothing of files or HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Redact: TypeAlias = Callable[[str], str]
"""Given a text of a request or a response, gives what may be written of it."""

REDACTED = "[redacted]"

MIN_SECRET_CHARS = 8
"""A shorter credential is a placeholder (``none``, ``EMPTY``), and its letters may stand anywhere."""

_NAMES = (
    r"(?:(?:api|access|private|secret|signing)[-_]?key|(?:access|auth|bearer|refresh|session)[-_]?token"
    r"|authorization|credentials?|passphrase|passwd|password|pwd|secret)"
)
_SECRET_NAME = re.compile(rf"(?is).*{_NAMES}")
_NAMED = re.compile(rf'(?i){_NAMES}(?P<escapes>\\*)"\s*:\s*(?P=escapes)"')
_NAMED_IN_PYTHON = re.compile(rf"(?i)({_NAMES}'\s*:\s*)'[^'\n]*'")  # as repr writes a dict
_QUOTE = re.compile(r'(?<!\\)(?P<escapes>\\*)"')
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt]))"  # in a text of JSON a line break before it is an escape
_SECRETS = re.compile(
    rf"{_START}(?:(?:sk|pk|rk|xai|gsk)-|(?:sk|pk|rk)_(?:live|test)_)[A-Za-z0-9_-]{{16,}}"
    rf"|{_START}(?:gh[opsur]_|github_pat_|glpat-|gsk_|hf_|npm_|nvapi-|pplx-|pypi-|r8_|xox[abprs]-|ya29\.|AKIA|ASIA|AIza)[A-Za-z0-9_-]{{16,}}"
    rf"|(?<![-.]){_START}eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*"
    r"|(?i:(?<=bearer )(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{8,})"
    r"|(?i:(?<=basic )(?=[A-Za-z+/]*[0-9])[A-Za-z0-9+/]{8,}={0,2})"
    r"|(?<=://)[^/\s:@\"\\]*:[^/\s@\"\\]+(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)


def redacted(text: str) -> str:
    """Take out what looks like a secret: ``sk-…``, ``ghp_…``, a JWT, a private key, what follows ``"password":``."""
    return _SECRETS.sub(REDACTED, _NAMED_IN_PYTHON.sub(rf"\1'{REDACTED}'", _without_named(text)))


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is taken out of what is written: what looks like a secret, known secrets, and what ``more`` takes out."""

    more: Redact | None = None
    secrets: tuple[str, ...] = ()

    def knowing(self, secrets: tuple[str, ...]) -> Redaction:
        """Take out these texts as well, but for those too short to be a secret."""
        return replace(self, secrets=(*self.secrets, *(one for one in secrets if len(one) >= MIN_SECRET_CHARS)))

    def text(self, text: str) -> str:
        """Give what may be written of a text."""
        for secret in self.secrets:
            text = text.replace(secret, REDACTED)
        text = redacted(text)
        return self.more(text) if self.more else text

    def value(self, value: Any, name: str = "") -> Any:
        """Give what may be written of a JSON value; a text under a ``name`` that says it is a secret is left out."""
        if isinstance(value, dict):
            return {self.text(key): self.value(member, key) for key, member in value.items()}
        if isinstance(value, list):
            return [self.value(member, name) for member in value]
        if not isinstance(value, str):
            return value
        return REDACTED if _SECRET_NAME.fullmatch(name) else self.text(value)


def _without_named(text: str) -> str:
    """Take out the texts of members whose names say that they are secret, in JSON however deep in other JSON."""
    kept: list[str] = []
    end = 0
    for name in _NAMED.finditer(text):
        if name.start() >= end:
            kept += [text[end : name.end()], REDACTED]
            end = _closing(text, name.end(), len(name["escapes"]))
    return "".join([*kept, text[end:]])


def _closing(text: str, start: int, escapes: int) -> int:
    """Find the end of a JSON string whose quotes have so many backslashes before them: 0, or 1 in JSON within JSON.

    More of them belong to the string when they are escaped ones themselves (RFC 8259 section 7).
    """
    for quote in _QUOTE.finditer(text, start):
        if len(quote["escapes"]) % (2 * (escapes + 1)) == escapes:
            return quote.end() - 1 - escapes
    return len(text)
