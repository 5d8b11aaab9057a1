"""Texts of a format written in other ways: the same day, time, length or address."""

from __future__ import annotations

import re
from datetime import date
from ipaddress import IPv4Address, IPv6Address

from strictreply.testing._steps import CANARY

_CLOCK = re.compile(r"(\d\d):(\d\d):\d\d(?:\.\d+)?")
_OFFSET = re.compile(r"(?i)(?:z|[+-]\d\d:\d\d)$")
_DURATION = re.compile(
    r"P(?:(?P<year>\d+)Y)?(?:(?P<month>\d+)M)?(?:(?P<week>\d+)W)?(?:(?P<day>\d+)D)?"
    r"(?:T(?:(?P<hour>\d+)H)?(?:(?P<minute>\d+)M)?(?:(?P<second>\d+)S)?)?"
)
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_NOON = 12


def day_first(text: str) -> str:
    """Write a date day first.

    Raises ValueError, as all of this module, for a text that cannot be written so.
    """
    return f"{date.fromisoformat(text):%d/%m/%Y}"


def day_in_words(text: str) -> str:
    """Write a date with the name of its month."""
    return f"{date.fromisoformat(text):%B %d, %Y}"


def on_no_day(text: str) -> str:
    """Write the 30th of February for the day of a date, or of a point in time."""
    return f"{text[:5]}02-30{text[10:]}"


def day_alone(text: str) -> str:
    """Leave out the time of a point in time."""
    return text[:10]


def without_offset(text: str) -> str:
    """Leave out the UTC offset of a time."""
    return _OFFSET.sub("", text)


def without_seconds(text: str) -> str:
    """Leave out the seconds of a time."""
    return _CLOCK.sub(r"\1:\2", text)


def at_twelve_hours(text: str) -> str:
    """Write a time with AM or PM."""
    clock = _CLOCK.search(text)
    if clock is None:
        raise ValueError("a time has hours")

    hour = int(clock[1])
    half = "PM" if hour >= _NOON else "AM"
    day = text[: clock.start()].replace("T", " ").replace("t", " ")
    return f"{day}{hour % _NOON or _NOON}:{clock[2]} {half}"


def _units_of(duration: str) -> dict[str, int]:
    found = _DURATION.fullmatch(duration)
    if found is None:
        raise ValueError("a duration has units")

    return {name: int(size) for name, size in found.groupdict().items() if size is not None}


def units_in_words(text: str) -> str:
    """Write a duration in words."""
    units = _units_of(text).items()
    return ", ".join(f"{size} {name}{'s' * (size != 1)}" for name, size in units)


def units_as_clock(text: str) -> str:
    """Write a duration as hours, minutes and seconds."""
    units = _units_of(text)
    if units.keys() - _SECONDS.keys():
        raise ValueError("a month has no fixed length")

    seconds = sum(size * _SECONDS[name] for name, size in units.items())
    minutes = seconds // _SECONDS["minute"]
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds % 60:02}"


def without_scheme(text: str) -> str:
    """Leave out the scheme of a URI."""
    return text.partition(":")[2].removeprefix("//")


def without_slash(text: str) -> str:
    """Leave out the first slash of a JSON Pointer; one is made up where that leaves none."""
    rest = text[1:]
    return f"{CANARY}/0" if rest[:1] in {"", "/"} else rest


def mapped_to_ipv6(text: str) -> str:
    """Write an IPv4 address as the IPv6 address that stands for it."""
    return f"::ffff:{IPv4Address(text)}"


def last_of_ipv6(text: str) -> str:
    """Write the last four bytes of an IPv6 address as an IPv4 address."""
    return str(IPv4Address(int(IPv6Address(text)) & 0xFFFF_FFFF))
