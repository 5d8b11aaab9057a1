"""The formats that the reference engine asserts, as predicates on text; jsonschema-rs brings its own."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date, time
from urllib.parse import urlsplit

TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[zZ]|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII)
DURATION = re.compile(
    r"P(?=[\dT])(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)?"
    r"(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?)",
    re.ASCII,
)
UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
MAILBOX = re.compile(
    r"(?:[^\x00-\x20@<>()\[\],;:\\\".]+(?:\.[^\x00-\x20@<>()\[\],;:\\\".]+)*|\"[^\"\\]*\")@(.+)", re.DOTALL
)
URI_CHARS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*")
MAX_HOSTNAME = 253
LEAP_SECOND = 60
DAY_MINUTES = 24 * 60


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Make a predicate of a parser that raises ValueError."""

    def parses(text: str) -> bool:
        """Say whether the text can be read."""
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return parses


_ipv4 = _parses(ipaddress.IPv4Address)


def _ipv6(text: str) -> bool:
    """RFC 4291 address, without a zone."""
    return "%" not in text and _parses(ipaddress.IPv6Address)(text)


def _date(text: str) -> bool:
    """RFC 3339 full-date."""
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII)) and _parses(date.fromisoformat)(text)


def _time(text: str) -> bool:
    """RFC 3339 full-time; second 60 only where UTC comes to the end of its day."""
    found = TIME.fullmatch(text)
    if not found:
        return False
    hours, minutes, seconds = (int(part) for part in found.groups()[:3])
    sign, ahead, past = found.groups()[3:]
    offset = (int(ahead) * 60 + int(past)) * (-1 if sign == "+" else 1) if sign else 0
    if seconds == LEAP_SECOND and (hours * 60 + minutes + offset) % DAY_MINUTES != DAY_MINUTES - 1:
        return False
    return seconds <= LEAP_SECOND and _parses(lambda _: time(hours, minutes))(text)


def _date_time(text: str) -> bool:
    """RFC 3339 date-time."""
    return text[10:11] in ("T", "t") and _date(text[:10]) and _time(text[11:])


def _hostname(text: str) -> bool:
    """RFC 1123 host name."""
    return 0 < len(text) <= MAX_HOSTNAME and all(LABEL.fullmatch(label) for label in text.split("."))


def _email(text: str) -> bool:
    """RFC 5321 mailbox."""
    found = MAILBOX.fullmatch(text)
    return bool(found) and text.isascii() and _mail_domain(found[1] if found else "")


def _mail_domain(domain: str) -> bool:
    """RFC 5321 domain, or an address in brackets."""
    if domain[:1] == "[" and domain[-1:] == "]":
        literal = domain[1:-1]
        return _ipv6(literal[5:]) if literal.startswith("IPv6:") else _ipv4(literal)
    return _hostname(domain)


def _idn_email(text: str) -> bool:
    """RFC 6531 mailbox, as far as it can be told without the tables of Unicode."""
    found = MAILBOX.fullmatch(text)
    return bool(found) and not re.search(r"\s", text.rpartition("@")[2])


def _uri_reference(text: str) -> bool:
    """RFC 3986 URI reference."""
    if not URI_CHARS.fullmatch(text) or re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return False
    try:
        parts = urlsplit(text)
        authority_is_sound = parts.port is None or parts.port >= 0
    except ValueError:
        return False
    first = parts.path.partition("/")[0]
    relative = not parts.scheme and not parts.netloc
    brackets = re.search(r"[\[\]]", parts.path + parts.query + parts.fragment)
    return authority_is_sound and not brackets and parts.netloc.count("@") < 2 and not (relative and ":" in first)  # noqa: PLR2004 - one at most


def _uri(text: str) -> bool:
    """RFC 3986 URI, with a scheme."""
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text)) and _uri_reference(text)


def _json_pointer(text: str) -> bool:
    """RFC 6901 pointer."""
    return (not text or text[0] == "/") and not re.search(r"~(?![01])", text)


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _date,
    "time": _time,
    "date-time": _date_time,
    "duration": lambda text: bool(DURATION.fullmatch(text)),
    "email": _email,
    "idn-email": _idn_email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "uri": _uri,
    "uri-reference": _uri_reference,
    "uuid": lambda text: bool(UUID.fullmatch(text)),
    "json-pointer": _json_pointer,
}
