"""Which JSON spells which Python scalar: 1 and 1.0 are one number, ``"1_0"`` is not a decimal."""

from __future__ import annotations

import base64
import operator
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from math import isfinite
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import ByteSize
from pydantic.types import EncodedBytes, EncodedStr
from pydantic_core import MultiHostUrl, PydanticSerializationError, Url, to_jsonable_python

from strictreply.contract._fidelity.comparing import Risk, Same, Scalar
from strictreply.values._limits import JSON

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:s?nan[0-9]*|inf(?:inity)?)", re.IGNORECASE)
_FRACTION = re.compile(r"[+-]?[0-9]+/[0-9]+")
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.(?P<fraction>\d+))?)?(?:[zZ]|[+-]\d\d:?\d\d)?"
_DATE = r"\d{4}-\d\d-\d\d"
_DURATION = (
    r"([+-]?)P(?=[\dT])(?:(\d+)Y)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(?P<fraction>\d+))?S)?)?"
)
_REAL = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# a real part, an imaginary part, or both
_COMPLEX = re.compile(rf"([+-]?{_REAL}(?=[+-]|$))?(?:([+-]?(?:{_REAL})?)j)?")
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]+)?", re.ASCII)
_MICROSECONDS = 6
_FINEST = "no finer than microseconds"
_JSON_TYPES = (bool, int, float, str, type(None), list, dict)
# the types that pydantic-core itself makes from text
_CORE_TYPES = (bytes, complex, date, time, timedelta, Decimal, Enum, UUID, Url, MultiHostUrl)
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


def equal(value: object, judged: JSON) -> bool:
    """Return whether two JSON scalars are equal: numbers by value; a boolean is not a number."""
    if isinstance(value, bool) or isinstance(judged, bool):
        return value is judged
    if isinstance(value, int | float):
        return isinstance(judged, int | float) and value == judged

    return type(value) is type(judged) and value == judged


def _exactly(kind: type) -> Same:
    return lambda value, judged: type(value) is kind and equal(value, judged)


def _is_decimal(value: object, judged: JSON) -> bool:
    if type(value) is not Decimal or isinstance(judged, bool):
        return False
    if str(value) == judged:  # the usual spelling
        return True
    if isinstance(judged, int | float):
        return value == Decimal(repr(judged) if isinstance(judged, float) else judged)
    if not value.is_finite():  # declared with allow_inf_nan; JSON has no number for it
        return bool(_NOT_FINITE.fullmatch(_str(judged)))

    return isinstance(judged, str) and bool(_DECIMAL.fullmatch(judged)) and Decimal(judged) == value


def _is_fraction(value: object, judged: JSON) -> bool:
    if not isinstance(value, Fraction) or isinstance(judged, bool):
        return False
    if isinstance(judged, int | float):
        return value in (Fraction(judged), Fraction(str(judged)))

    text = _str(judged)
    is_plain = _FRACTION.fullmatch(text) or _DECIMAL.fullmatch(text)
    return is_plain is not None and Fraction(text) == value


def _as_read(
    kind: type,
    pattern: str,
    read: Callable[[str], object],
    agree: Callable[..., object] = operator.eq,
) -> Same:
    whole = re.compile(pattern, re.ASCII)

    def same(value: object, judged: JSON) -> bool:
        found = whole.fullmatch(_str(judged))
        if type(value) is not kind or not found:
            return False

        fraction = found.groupdict().get("fraction") or ""
        if fraction[_MICROSECONDS:].strip("0"):  # more digits than a value can store
            return False

        return bool(agree(value, read(found[0].upper())))

    return same


def _on_clock(value: datetime | time, read: datetime | time) -> bool:
    is_same_clock = value.replace(tzinfo=None) == read.replace(tzinfo=None)
    return bool(is_same_clock and value.utcoffset() == read.utcoffset())


def _duration(text: str) -> timedelta:
    """Read a duration.

    A year is 365 days, as pydantic also writes it; a month has no fixed number of days.
    """
    found = re.fullmatch(_DURATION, text, re.ASCII)
    parts: tuple[Any, ...] = found.groups() if found else ()
    years, weeks, days, hours, minutes, seconds = (int(part or 0) for part in parts[1:7])
    micro = int((parts[7] or "")[:_MICROSECONDS].ljust(_MICROSECONDS, "0"))
    days += 365 * years + 7 * weeks
    read = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=micro)
    return -read if parts[0] == "-" else read


def _is_url(value: object, judged: JSON) -> bool:
    """Compare addresses as RFC 3986 section 6.2 does.

    The case of scheme and host, the default port and an empty path make no difference.
    """

    def address(text: str) -> tuple[object, ...]:
        parts = urlsplit(text)
        scheme = parts.scheme.lower()
        port = None if parts.port == _PORTS.get(scheme) else parts.port
        user = parts.netloc.rpartition("@")[0]
        host = (parts.hostname or "").lower()
        path = parts.path if parts.path or not parts.netloc else "/"
        return scheme, user, host, port, path, parts.query, parts.fragment

    if not isinstance(value, Url):  # another type of a union was read
        return False
    return str(value) == judged or address(str(value)) == address(_str(judged))


def _str(judged: JSON) -> str:
    if not isinstance(judged, str):
        # a verdict, which the caller reads as "not the same"
        raise ValueError("no text")  # noqa: TRY004
    return judged


def one_of(expected: Iterable[object]) -> Scalar:
    """Return how the values of a Literal or the members of an Enum are spelled.

    Each has its own type: 0 is not false.
    """
    values = [value.value if isinstance(value, Enum) else value for value in expected]

    def same(value: object, judged: JSON) -> bool:
        own = value.value if isinstance(value, Enum) else value
        try:
            return equal(own, judged) or equal(to_jsonable_python(own), judged)
        except PydanticSerializationError:
            return True  # the spelling of such a member is not known

    texts = all(isinstance(value, str) for value in values)
    risk = Risk.NONE if texts else Risk.ALWAYS
    return Scalar(same, "must be one of the values, in its own type", risk=risk, text=texts)


def text_of_bytes(encoding: str) -> Scalar:
    """Return how bytes are spelled in an encoding: ``utf8``, ``base64`` or ``hex``.

    The configuration of the model that holds the bytes names the encoding.
    """

    def same(value: object, judged: JSON) -> bool:
        if type(value) is not bytes:
            return False
        if encoding == "hex":
            return value.hex() == _str(judged).lower()
        if encoding == "base64":
            spelled = base64.b64encode(value).decode().rstrip("=")
            return spelled == _str(judged).replace("-", "+").replace("_", "/").rstrip("=")

        return value == _str(judged).encode()

    risk = Risk.NONE if encoding == "utf8" else Risk.ALWAYS
    return Scalar(same, f"must be bytes in {encoding}", risk=risk)


def encoded(function: object) -> Scalar | None:
    """Return how ``Base64Bytes``, ``Base64Str`` and similar types are spelled.

    None for other functions.
    """
    codec = getattr(function, "__self__", None)
    if not isinstance(codec, EncodedBytes | EncodedStr):
        return None
    if not codec.encoder.__module__.startswith("pydantic."):
        return None

    def same(value: Any, judged: JSON) -> bool:
        if type(value) not in (str, bytes):  # another type of a union was read
            return False

        data = value.encode() if isinstance(value, str) else value
        spelled = codec.encoder.encode(data).rstrip(b"=")
        return spelled == _str(judged).encode().rstrip(b"=")

    return Scalar(same, f"must be bytes in {codec.encoder.get_json_format()}", keeps=False)


def _is_float(value: object, judged: JSON) -> bool:  # a key may be spelled 1e999
    return type(value) is float and isfinite(value) and equal(value, judged)


def _is_complex(value: object, judged: JSON) -> bool:
    found = _COMPLEX.fullmatch(_str(judged).strip("()"))
    if type(value) is not complex or not found or not isfinite(abs(value)):
        return False

    # only digits are an integer, which a float must represent exactly
    pairs = zip((value.real, value.imag), found.groups(), strict=True)
    return all(not (text or "").lstrip("+-").isdigit() or part == int(text) for part, text in pairs)


def _is_size(value: int, judged: JSON) -> bool:
    """Compare a number of bytes with a number and its unit, which must be whole bytes."""
    if not isinstance(judged, str):
        return equal(int(value), judged)

    found = _SIZE.fullmatch(judged)
    if not found:
        return False

    unit = found[2].lower() if found[2] else "b"
    return Fraction(found[1]) * Fraction(ByteSize.byte_sizes.get(unit, 0)) == int(value)


def _is_path(value: PurePath, judged: JSON) -> bool:
    return judged in (str(value), value.as_posix())


def _is_address(value: IPv4Address | IPv6Address | IPv4Network | IPv6Network, judged: JSON) -> bool:
    return bool(type(value)(_str(judged)) == value)


def _is_pattern(value: re.Pattern[str] | re.Pattern[bytes], judged: JSON) -> bool:
    written = value.pattern
    return bool(_str(judged) == (written.decode() if isinstance(written, bytes) else written))


# how pydantic's own functions make values from text, by the type of the value
_READ: dict[type[Any], Same] = {
    ByteSize: _is_size,
    PurePath: _is_path,
    re.Pattern: _is_pattern,
    **dict.fromkeys((IPv4Address, IPv6Address, IPv4Network, IPv6Network), _is_address),
    ZoneInfo: lambda value, judged: value.key == judged,
    Fraction: _is_fraction,
}


def _opaque(value: object, judged: JSON) -> bool:
    if type(value) in _JSON_TYPES:
        return equal(value, judged)
    if isinstance(value, _CORE_TYPES):  # another type of a union was read
        return False

    for kind, same in _READ.items():
        if isinstance(value, kind):
            return same(value, judged)

    return True


# how the scalars that have these names in pydantic are spelled
SPELLINGS = {
    "none": Scalar(_exactly(type(None)), "must be null", risk=Risk.NONE, text=False),
    "bool": Scalar(equal, "must be true or false", risk=Risk.NONE, text=False),
    "int": Scalar(_exactly(int), "must be an integer in digits", risk=Risk.NONE, text=False),
    "float": Scalar(
        _is_float,
        "must be a number that a 64-bit float holds exactly",
        risk=Risk.LONG_NUMBERS,
        text=False,
    ),
    "str": Scalar(_exactly(str), "must be a string", risk=Risk.NONE),
    "own-str": Scalar(
        lambda value, _: type(value) is str, "must be a string", risk=Risk.NONE, keeps=False
    ),
    "path": Scalar(
        lambda value, judged: isinstance(value, PurePath) and _is_path(value, judged),
        "must be a path in its normal form, as a/b: without //, without . and without / at its end",
        keeps=False,
    ),
    "size": Scalar(
        lambda value, judged: isinstance(value, ByteSize) and _is_size(value, judged),
        "must be a whole number of bytes, or a number with a unit that comes to one, as 1.5KB",
        keeps=False,
    ),
    "opaque": Scalar(_opaque, "must be as the schema shows, in its normal form", keeps=False),
    "decimal": Scalar(_is_decimal, "must be a decimal number in plain digits"),
    "fraction": Scalar(_is_fraction, "must be a fraction in plain digits"),
    "date": Scalar(_as_read(date, _DATE, date.fromisoformat), "must be a date, YYYY-MM-DD"),
    "time": Scalar(
        _as_read(time, _CLOCK, time.fromisoformat, _on_clock),
        f"must be a time as in RFC 3339, {_FINEST}",
    ),
    "datetime": Scalar(
        _as_read(datetime, rf"{_DATE}[Tt ]{_CLOCK}", datetime.fromisoformat, _on_clock),
        f"must be a date and time as in RFC 3339, {_FINEST}",
    ),
    "timedelta": Scalar(
        _as_read(timedelta, _DURATION, _duration), f"must be a duration without months, {_FINEST}"
    ),
    "uuid": Scalar(_as_read(UUID, r"(?s:.*)", UUID), "must be a UUID"),  # UUID rejects all others
    "url": Scalar(_is_url, "must be a URL in its normal form"),
    "multi-host-url": Scalar(
        lambda value, judged: isinstance(value, MultiHostUrl) and str(value) == judged,
        "must be a URL in its normal form",
    ),
    "complex": Scalar(_is_complex, "must be a complex number in plain digits that floats hold"),
}
