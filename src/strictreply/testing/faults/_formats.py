"""Faults of a string's format: what models write where a date, an address or an identifier belongs."""

from __future__ import annotations

from collections.abc import Iterator

from strictreply.testing._steps import CANARY
from strictreply.testing.faults._breaking import Values, at_place
from strictreply.testing.faults._spots import Spot


@at_place("args.format")
def bad_format(spot: Spot) -> Values:
    """A string is not of the format at all."""
    yield from (CANARY, f"{CANARY} %", f"~{CANARY}", f"({CANARY}", f"{{{CANARY}") if spot.states("format") else ()


@at_place("args.format")
def date_in_other_order(spot: Spot) -> Values:
    """A date is written day first."""
    yield from _in_place_of(spot, "date", "31/01/2025")


@at_place("args.format")
def date_in_words(spot: Spot) -> Values:
    """A date is written with the name of its month."""
    yield from _in_place_of(spot, "date", "January 31, 2025")


@at_place("args.format")
def impossible_date(spot: Spot) -> Values:
    """A date has the right form, but its month is not that long."""
    yield from _in_place_of(spot, "date", "2025-02-30")
    yield from _in_place_of(spot, "date-time", "2025-02-30T12:00:00Z")


@at_place("args.format")
def time_for_date(spot: Spot) -> Values:
    """A date comes with a time of day."""
    yield from _in_place_of(spot, "date", "2025-01-31T00:00:00Z")


@at_place("args.format")
def date_for_time(spot: Spot) -> Values:
    """A point in time has no time of day."""
    yield from _in_place_of(spot, "date-time", "2025-01-31")


@at_place("args.format")
def time_without_offset(spot: Spot) -> Values:
    """A time has no offset from UTC (RFC 3339 section 5.6 demands one)."""
    yield from _in_place_of(spot, "date-time", "2025-01-31T12:00:00")
    yield from _in_place_of(spot, "time", "12:00:00")


@at_place("args.format")
def time_without_seconds(spot: Spot) -> Values:
    """A time has no seconds."""
    yield from _in_place_of(spot, "date-time", "2025-01-31T12:00Z")
    yield from _in_place_of(spot, "time", "12:00Z")


@at_place("args.format")
def time_of_twelve_hours(spot: Spot) -> Values:
    """A time is written with am or pm."""
    yield from _in_place_of(spot, "date-time", "2025-01-31 3:30 PM")
    yield from _in_place_of(spot, "time", "3:30 PM")


@at_place("args.format")
def duration_in_words(spot: Spot) -> Values:
    """A duration is written in words."""
    yield from _in_place_of(spot, "duration", "2 days")


@at_place("args.format")
def duration_as_clock(spot: Spot) -> Values:
    """A duration is written as hours, minutes and seconds with colons."""
    yield from _in_place_of(spot, "duration", "01:30:00")


@at_place("args.format")
def email_with_name(spot: Spot) -> Values:
    """An email address stands behind a name, as in the head of a letter."""
    yield from _in_place_of(spot, "email", f"Ann <{CANARY}@example.com>")


@at_place("args.format")
def email_in_brackets(spot: Spot) -> Values:
    """An email address stands in angle brackets."""
    yield from _in_place_of(spot, "email", f"<{CANARY}@example.com>")


@at_place("args.format")
def email_without_domain(spot: Spot) -> Values:
    """An email address ends at its @."""
    yield from _in_place_of(spot, "email", f"{CANARY}@")


@at_place("args.format")
def uuid_without_hyphens(spot: Spot) -> Values:
    """A UUID is written as 32 digits in a row."""
    yield from _in_place_of(spot, "uuid", "123e4567e89b42d3a456426614174000")


@at_place("args.format")
def uuid_in_braces(spot: Spot) -> Values:
    """A UUID stands in braces."""
    yield from _in_place_of(spot, "uuid", "{123e4567-e89b-42d3-a456-426614174000}")


@at_place("args.format")
def uuid_too_short(spot: Spot) -> Values:
    """A UUID lacks a digit."""
    yield from _in_place_of(spot, "uuid", "123e4567-e89b-42d3-a456-42661417400")


@at_place("args.format")
def uri_without_scheme(spot: Spot) -> Values:
    """A URI begins at its host."""
    yield from _in_place_of(spot, "uri", f"www.example.com/{CANARY}")
    yield from _in_place_of(spot, "iri", f"www.example.com/{CANARY}")


@at_place("args.format")
def uri_with_space(spot: Spot) -> Values:
    """A URI or a reference holds a space."""
    for name in ("uri", "uri-reference", "iri", "iri-reference"):
        yield from _in_place_of(spot, name, f"https://example.com/{CANARY} {CANARY}")


@at_place("args.format")
def uri_in_markdown(spot: Spot) -> Values:
    """A URI is written as a link in Markdown."""
    yield from _in_place_of(spot, "uri", f"[{CANARY}](https://example.com/)")


@at_place("args.format")
def host_with_scheme(spot: Spot) -> Values:
    """A host name is written as a URI."""
    yield from _in_place_of(spot, "hostname", f"https://{CANARY}.example.com/")


@at_place("args.format")
def ipv4_out_of_range(spot: Spot) -> Values:
    """A part of an IPv4 address is greater than 255."""
    yield from _in_place_of(spot, "ipv4", "192.0.2.256")


@at_place("args.format")
def ipv4_with_port(spot: Spot) -> Values:
    """An IPv4 address comes with a port."""
    yield from _in_place_of(spot, "ipv4", "192.0.2.1:8080")


@at_place("args.format")
def ipv6_for_ipv4(spot: Spot) -> Values:
    """An IPv6 address stands where an IPv4 address belongs."""
    yield from _in_place_of(spot, "ipv4", "2001:db8::1")


@at_place("args.format")
def ipv4_for_ipv6(spot: Spot) -> Values:
    """An IPv4 address stands where an IPv6 address belongs."""
    yield from _in_place_of(spot, "ipv6", "192.0.2.1")


@at_place("args.format")
def pointer_without_slash(spot: Spot) -> Values:
    """A JSON Pointer does not begin with a slash."""
    yield from _in_place_of(spot, "json-pointer", f"{CANARY}/0")


def _in_place_of(spot: Spot, name: str, text: str) -> Iterator[str]:
    """Give a text where the schema asks for a format."""
    if name in spot.rules("format"):
        yield text
