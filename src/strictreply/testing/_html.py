"""Pages for people, each one file that runs and loads nothing.

The library that writes the tree escapes every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from importlib.resources import files
from types import MappingProxyType
from xml.etree import ElementTree as ET

from strictreply.core.text import printable_lines


def page(title: str, *content: ET.Element, css: str = "") -> str:
    """Write a page of its content; ``css`` is added to the style that all pages have."""
    style = files("strictreply.testing").joinpath("_html.css").read_text("utf-8")
    policy = {
        "http-equiv": "Content-Security-Policy",
        "content": "default-src 'none'; style-src 'unsafe-inline'",
    }
    viewport = {"name": "viewport", "content": "width=device-width, initial-scale=1"}
    metas = (element("meta", **one) for one in ({"charset": "utf-8"}, policy, viewport))

    head = element("head", *metas, element("title", title), element("style", style + css))
    body = element("body", element("main", element("h1", title), *content))
    root = element("html", head, body, lang="en")

    return f"<!doctype html>\n{ET.tostring(root, encoding='unicode', method='html')}\n"


def element(tag: str, *content: str | ET.Element, kind: str = "", **attributes: str) -> ET.Element:
    """Make an element of texts, printable line by line, and elements; ``kind`` is its class."""
    made = ET.Element(tag, {"class": kind} if kind else {}, **attributes)
    for part in content:
        if isinstance(part, ET.Element):
            made.append(part)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + printable_lines(part)
        else:
            made.text = (made.text or "") + printable_lines(part)

    return made


def row(tag: str, *cells: str | ET.Element) -> ET.Element:
    """Make a row of a table."""
    return element("tr", *(element(tag, cell) for cell in cells))


def findings(heads: Sequence[str], rows: Iterable[ET.Element]) -> ET.Element:
    """Make a table of findings."""
    return element(
        "table", element("thead", row("th", *heads)), element("tbody", *rows), kind="findings"
    )


def folded(title: str, rows: Iterable[ET.Element]) -> ET.Element:
    """Make a table that is shown on request."""
    return element("details", element("summary", title), element("table", element("tbody", *rows)))


def slug(value: Enum) -> str:
    """Return the class of what has a member of an enumeration: ``harm-leaks``."""
    return f"{type(value).__name__}-{value.name}".lower()


def dot(name: str) -> ET.Element:
    """Make a dot in the colour of a class."""
    return element("span", kind=f"dot {name}")


def facts(pairs: Mapping[str, str]) -> ET.Element:
    """List what is known of the page's subject by name; what is empty is left out."""
    known = {name: value for name, value in pairs.items() if value}
    parts = (part for fact in known.items() for part in map(element, ("dt", "dd"), fact))
    return element("dl", *parts)


def bar(parts: Mapping[str, int], whole: int) -> ET.Element:
    """Draw numbers as parts of a whole; the names are the parts' classes, and are read aloud."""
    seen = {name: number for name, number in parts.items() if number}
    spans = (
        element("span", kind=name, style=f"width:{100 * n / whole:.2f}%")
        for name, n in seen.items()
    )
    label = ", ".join(f"{name} {number}" for name, number in seen.items())
    return element("div", *spans, kind="bar", role="img", **{"aria-label": label})


def numbers(named: Iterable[tuple[str, int]]) -> Iterable[ET.Element]:
    """Make the cells of numbers; on a narrow screen each says its name, and zeros are left out."""
    for name, number in named:
        kind = "number" if number else "number zero"
        yield element("td", str(number), kind=kind, **{"data-title": name})


def anchor(name: str, taken: set[str]) -> str:
    """Make the id of a place that links lead to.

    It is the same for the same words, unless it is ``taken`` already.
    """
    slug = base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "place"
    number = 2
    while slug in taken:
        slug = f"{base}-{number}"
        number += 1

    taken.add(slug)
    return slug


def linked(tag: str, place: str, *content: str | ET.Element) -> ET.Element:
    """Make a heading that links to itself; ``place`` is the id of what it heads."""
    return element(tag, *content, " ", element("a", "#", href=f"#{place}", kind="anchor"))


def choices(name: str, words: Mapping[str, str]) -> tuple[ET.Element, str]:
    """Make a filter of findings by class, and its style.

    A cause stays while it holds a finding that is shown.
    """
    options = {"": "all", **words}
    labels: list[str | ET.Element] = [element("strong", f"{name}: ")]
    style = ""

    for kind, word in options.items():
        place = f"only-{name}-{kind}"
        checked = {} if kind else {"checked": "checked"}
        button = element("input", type="radio", name=name, id=place, **checked)
        labels.append(element("label", button, word))

        if kind:
            chosen = f"main:has(#{place}:checked)"
            style += (
                f"{chosen} .finding:not(.{kind}), "
                f"{chosen} .cause:not(:has(.{kind})) {{ display: none; }}\n"
            )

    return element("p", *labels, kind="filter"), style


def shares(
    rates: Sequence[tuple[str, int, int]],
    titles: tuple[str, str, str],
    kinds: Mapping[str, str] = MappingProxyType({}),
) -> ET.Element:
    """Make a table of rates as bars.

    A rate is a name, how many of it are bad, and how many there are; its row also shows the share.
    ``kinds`` has the class of a name's bar where that is not ``bad``.
    """
    rows: list[ET.Element] = []
    for name, bad, all_ in rates:
        cells = [element("td", name), element("td", bar({kinds.get(name, "bad"): bad}, all_))]
        cells += numbers(zip(titles, (bad, all_), strict=False))
        share = element("td", f"{100 * bad / all_:.1f} %", kind="number")
        rows.append(element("tr", *cells, share))

    heads = (element("th", title, kind="number") for title in titles)
    head = element("thead", element("tr", element("th"), element("th"), *heads))
    return element("table", head, element("tbody", *rows), kind="counts")
