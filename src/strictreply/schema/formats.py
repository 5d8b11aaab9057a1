"""The formats that the reference engine asserts, as predicates on text; jsonschema-rs brings its own."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date, time
from urllib.parse import urlsplit
from uuid import UUID

TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.\d{1,9})?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII)
DURATION = re.compile(
    r"P(?:\d{1,18}W|(?=[\dT])(?:\d{1,18}Y)?(?:\d{1,18}M)?(?:\d{1,18}D)?"
    r"(?:T(?=\d)(?:\d{1,18}H)?(?:\d{1,18}M)?(?:\d{1,18}S)?)?)",
    re.ASCII,
)
LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
URI_CHARS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*")
MAX_HOSTNAME = 253
LEAP_SECOND = 60


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


def _date(text: str) -> bool:
    """RFC 3339 full-date."""
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII)) and _parses(date.fromisoformat)(text)


def _time(text: str) -> bool:
    """RFC 3339 full-time, a leap second included."""
    found = TIME.fullmatch(text)
    if not found:
        return False
    hours, minutes, seconds = (int(part) for part in found.groups())
    return _parses(lambda _: time(hours, minutes, min(seconds, 59)))(text) and seconds <= LEAP_SECOND


def _date_time(text: str) -> bool:
    """RFC 3339 date-time."""
    return text[10:11] in ("T", "t") and _date(text[:10]) and _time(text[11:])


def _hostname(text: str) -> bool:
    """RFC 1123 host name."""
    return 0 < len(text) <= MAX_HOSTNAME and all(LABEL.fullmatch(label) for label in text.split("."))


def _email(text: str) -> bool:
    """RFC 5321 mailbox, without quoted local parts."""
    local, at, domain = text.rpartition("@")
    plain = bool(local) and not re.search(r"[\s@<>()\[\],;:\\\"]", local) and ".." not in local
    return bool(at) and plain and local[0] != "." and local[-1] != "." and _hostname(domain)


def _uri_reference(text: str) -> bool:
    """RFC 3986 URI reference."""
    return bool(URI_CHARS.fullmatch(text)) and not re.search(r"%(?![0-9A-Fa-f]{2})", text) and _parses(urlsplit)(text)


def _uri(text: str) -> bool:
    """RFC 3986 URI, with a scheme."""
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text)) and _uri_reference(text)


def _uuid(text: str) -> bool:
    """RFC 4122 UUID."""
    return [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12] and _parses(UUID)(text)


def _json_pointer(text: str) -> bool:
    """RFC 6901 pointer."""
    return (not text or text[0] == "/") and not re.search(r"~(?![01])", text)


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _date,
    "time": _time,
    "date-time": _date_time,
    "duration": lambda text: bool(DURATION.fullmatch(text)),
    "email": _email,
    "idn-email": _email,
    "hostname": _hostname,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": lambda text: "%" not in text and _parses(ipaddress.IPv6Address)(text),
    "uri": _uri,
    "uri-reference": _uri_reference,
    "uuid": _uuid,
    "json-pointer": _json_pointer,
}
