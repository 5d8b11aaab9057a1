"""What may be written of traffic: texts and JSON without what looks like a secret. Nothing of files or HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from strictreply.values import _attempts as attempts

RedactText: TypeAlias = Callable[[str], str]
"""Given a text of a request or a response, gives what may be written of it."""

REDACTED = attempts.REDACTED

_NAMES = (
    r"(?:(?:api|access|private|secret|signing)[-_]?key"
    r"|authorization|cookie|credentials?|passphrase|passwd|password|pwd|secret|token)"
)
_NUMBER = r"-?[0-9][0-9.eE+-]*"
_SECRET_NAME = re.compile(rf"(?is).*{_NAMES}")
_NAMED = re.compile(
    rf'(?i){_NAMES}(?P<escapes>\\*)"\s*:\s*(?:(?P<text>(?P=escapes)")|(?P<nested>[{{\[])|(?P<number>{_NUMBER}))'
)
_NAMED_IN_PYTHON = re.compile(rf"""(?i)({_NAMES}'\s*:\s*)(?:'[^'\n]*'|"[^"\n]*"|{_NUMBER})""")  # as repr writes a dict
_ASSIGNED = re.compile(
    rf"""(?i)({_NAMES}[ \t]*=(?!=)[ \t]*)"""
    r"""(?:(\\*["'])[^"'\\\n]+|(?:(?:basic|bearer)[ \t]+)?[^\s"'\\&,;()<>]+)"""
)
# a header's whole line; after other names only what is no word: "token: str" and "password: required" are none
_LABELLED = re.compile(
    r"""(?i)((?:authorization|cookie)[ \t]*:[ \t]*(?:(?:basic|bearer)[ \t]+)?)[^\s"'\\][^"'\\\r\n]*"""
    rf"""|({_NAMES}[ \t]*:[ \t]*)(?=[^\s"'\\&,;()<>]{{0,200}}[0-9]|[^\s"'\\&,;()<>]{{20}})[^\s"'\\&,;()<>{{[]{{8,}}"""
)
_IN_QUERY = re.compile(
    r"""(?i)(?<=[?&])([a-z0-9_.-]{0,40}(?:key|sig|signature|auth|code|sid|session)=)[^\s&"'\\#<>]{8,}"""
)
_QUOTE = re.compile(r'(?<!\\)(?P<escapes>\\*)"')
_BRACKET = re.compile(r'(?<!\\)(?P<escapes>\\*)(?:(?P<quote>")|(?P<opening>[{\[])|[}\]])')
_OF_A_MODEL = re.compile(r'\\*"\s*,\s*\\*"(?:bytes|logprob)\\*"\s*:')  # what follows a token of its text, no secret
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_SCHEMA_WORDS = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf"})
_SCHEMA = re.compile(
    rf"""\{{[^{{}}]{{0,2000}}?"(?:type\\*"\s*:\s*(?:\[|\\*"(?:{"|".join(_TYPES)})\\*")"""
    rf"""|(?:{"|".join(map(re.escape, sorted(_SCHEMA_WORDS)))})\\*"\s*:)"""
)
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt]))"  # in a text of JSON a line break before it is an escape
_SECRETS = re.compile(
    rf"{_START}(?:(?:sk|pk|rk|xai|gsk)-|(?:sk|pk|rk)_(?:live|test)_)[A-Za-z0-9_-]{{16,}}"
    rf"|{_START}(?:gh[opsur]_|github_pat_|glpat-|gsk_|hf_|npm_|nvapi-|pplx-|pypi-|r8_|xox[abprs]-|ya29\.|AKIA|ASIA|AIza)[A-Za-z0-9_-]{{16,}}"
    rf"|(?<![-.]){_START}eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*"
    r"|(?:(?<=[Bb]earer )|(?<=BEARER ))(?!-)(?=[A-Za-z._~+/=-]*[0-9]|[a-z._~+/=-]+[A-Z]|[A-Z]{2})[A-Za-z0-9._~+/=-]{8,}"
    r"|(?i:(?<=basic )(?=[A-Za-z+/]*[0-9])[A-Za-z0-9+/]{8,}={0,2})"
    r"|(?<=://)[^/\s:@\"\\]*:[^/\s@\"\\]+(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)


def redacted(text: str) -> str:
    """Take out what looks like a secret.

    That is ``sk-…``, ``ghp_…``, a JWT, a private key, what follows ``"password":``, ``OPENAI_API_KEY=``, ``token:`` or
    ``Cookie:``, and what a query says under ``key=`` or ``sig=``. Under such a name a number, an object and an array go
    as a whole; a JSON Schema stays, it is a parameter's declaration.
    """
    text = _NAMED_IN_PYTHON.sub(rf"\1'{REDACTED}'", _without_named(text))
    text = _IN_QUERY.sub(rf"\1{REDACTED}", _LABELLED.sub(rf"\1\2{REDACTED}", text))
    return _SECRETS.sub(REDACTED, _ASSIGNED.sub(rf"\1\2{REDACTED}", text))


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is taken out of what is written: what looks like a secret, known secrets, and what ``more`` takes out."""

    more: RedactText | None = None
    secrets: tuple[str, ...] = ()

    def knowing(self, secrets: tuple[str, ...]) -> Redaction:
        """Take out these texts as well, but for those too short to be a secret."""
        long = (one for one in secrets if len(one) >= attempts.MIN_CREDENTIAL_CHARS)
        return replace(self, secrets=tuple(dict.fromkeys((*self.secrets, *long))))

    def text(self, text: str) -> str:
        """Return what may be written of a text."""
        for secret in self.secrets:
            text = text.replace(secret, REDACTED)
        text = redacted(text)
        return self.more(text) if self.more else text

    def value(self, value: Any, name: str = "") -> Any:
        """Return what may be written of a JSON value; what stands under a ``name`` of a secret is left out.

        True, false and null stay, and so does a JSON Schema: it declares a parameter of that name.
        """
        if isinstance(value, list):
            return [self.value(member, name) for member in value]
        if isinstance(value, dict):
            named = value.get("type")
            secret = bool(value) and not (_SCHEMA_WORDS & value.keys() or isinstance(named, list) or named in _TYPES)
        else:
            secret = isinstance(value, str | int | float) and not isinstance(value, bool)
        if secret and _SECRET_NAME.fullmatch(name):
            return REDACTED
        if isinstance(value, dict):
            of_a_model = "logprob" in value  # its "token" is a piece of the model's text
            return {
                self.text(key): self.value(member, "" if of_a_model and key == "token" else key)
                for key, member in value.items()
            }
        return self.text(value) if isinstance(value, str) else value


def _without_named(text: str) -> str:
    kept: list[str] = []
    end = 0
    for name in _NAMED.finditer(text):
        span = _secret_span(text, name) if name.start() >= end else None
        if span is not None:
            quote = "" if name["text"] else f'{name["escapes"]}"'
            kept += [text[end : span[0]], quote, REDACTED, quote]
            end = span[1]
    return "".join([*kept, text[end:]])


def _secret_span(text: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Find what to take out after a secret's name; None when it is a JSON Schema, or a token of a model's text."""
    escapes = len(name["escapes"])
    if name["text"]:
        end = _closing(text, name.end(), escapes)
        alone = text[max(0, name.start() - 1) : name.start("escapes")] == '"token'
        return None if alone and _OF_A_MODEL.match(text, end) else (name.end(), end)
    if name["nested"]:
        start = name.start("nested")
        return None if _SCHEMA.match(text, start) else (start, _closing_bracket(text, start, escapes))
    return name.span("number")


def _closing_bracket(text: str, start: int, escapes: int) -> int:
    """Find the end of an object or an array whose quotes have so many backslashes before them.

    It ends with the text it stands in, should its own end not come before.
    """
    depth, at = 0, start
    while found := _BRACKET.search(text, at):
        at = found.end()
        if found["quote"]:
            if len(found["escapes"]) < escapes:
                return found.start()
            at = _closing(text, at, escapes) + escapes + 1
            continue
        depth += 1 if found["opening"] else -1
        if depth == 0:
            return at
    return len(text)


def _closing(text: str, start: int, escapes: int) -> int:
    """Find the end of a JSON string whose quotes have so many backslashes before them: 0, or 1 in JSON within JSON.

    More of them belong to the string when they are escaped ones themselves (RFC 8259 section 7).
    """
    for quote in _QUOTE.finditer(text, start):
        if len(quote["escapes"]) % (2 * (escapes + 1)) == escapes:
            return quote.end() - 1 - escapes
    return len(text)
