r"""Rewrites regular expressions of schemas for an engine that matches in linear time.

Such an engine has no look-around and no back-references. A schema's pattern only asks whether it is
found in a text, so a condition at a place that can be counted from an end of the text becomes a
separate pattern: ``^(?!a)b`` is ``^b`` and not ``^a``. Any other condition is removed from the
pattern, which then accepts more, never less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

MAX_FORMS = 64  # how many patterns one may become
MAX_REPEATS = 1_000  # of a counted repeat, which an engine writes out
_TOKEN: Final = re.compile(
    r"""(?P<class>\[\^?(?:[^\]\\]|\\.)*\])
      | (?P<open>\((?:\?(?::|=|!|<=|<!|P?<[A-Za-z_]\w*>|[a-z]*-?[a-z]+:))?)
      | (?P<close>\))
      | (?P<either>\|)
      | (?P<back>\\(?:[1-9]\d*|k<\w+>))
      | (?P<edge>\^|\$|\\[bBAzZ])
      | (?P<atom>\\(?:[pP]\{[^}]*\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[^}]*\}|c[A-Za-z]|.)
          | [^\\()|\[^$*+?])
    """,
    re.VERBOSE | re.DOTALL,
)
_REPEAT: Final = re.compile(r"(?:[*+?]|\{(?P<least>\d+)(?P<comma>,(?P<most>\d*))?\})[?+]?")
_LOOKS: Final = frozenset({"(?=", "(?!", "(?<=", "(?<!"})
ANY: Final = r"[\s\S]"
# What browsers and Python accept, and a linear engine rejects.
_BARE: Final = {"{": r"\{", "}": r"\}", "]": r"\]", "[^]": ANY, "[]": r"[^\s\S]"}
_HYPHEN: Final = re.compile(r"(?<=\\[wdsWDS])-(?!\])|(?<!^)(?<!\\)-(?=\\[wdsWDS])")
# The meanings of class shorthands in pydantic's engine, which follow Unicode, and in JSON Schema,
# whose patterns are those of ECMA-262.
UNICODE: Final = {
    "w": r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}",
    "d": r"\p{Nd}",
    "s": r"\p{White_Space}",
}
ASCII: Final = {"w": "A-Za-z0-9_", "d": "0-9"}


class InvalidPattern(ValueError):
    """The text is not a regular expression."""


@dataclass(frozen=True, slots=True)
class _Item:
    """One item of a sequence: ``body`` with its ``repeat``.

    ``kind`` is the group of the token; ``forms`` are the alternatives of a group.
    """

    kind: str
    body: str
    repeat: str = ""
    forms: tuple[_Sequence, ...] = ()

    @property
    def is_look(self) -> bool:
        return self.kind == "open" and self.body in _LOOKS

    @property
    def is_behind(self) -> bool:
        return self.body.startswith("(?<")

    @property
    def is_plain(self) -> bool:
        """Whether neither this item nor one inside it has look-around or back-references."""
        inner = (item for form in self.forms for item in form)
        return not self.is_look and self.kind != "back" and all(each.is_plain for each in inner)

    @property
    def width(self) -> int | None:
        """The number of characters that it matches; None if that varies."""
        widths = {sum_of(item.width for item in form) for form in self.forms}
        if self.kind == "edge" or self.is_look:
            width: int | None = 0
        elif self.kind in ("class", "atom"):
            width = 1
        else:
            width = widths.pop() if len(widths) == 1 and self.kind == "open" else None

        if not self.repeat or width is None:
            return width

        counted = _REPEAT.fullmatch(self.repeat)
        if counted is None or counted["least"] is None:
            return None

        is_fixed = not counted["comma"] or counted["most"] == counted["least"]
        return width * int(counted["least"]) if is_fixed else None

    @property
    def text(self) -> str:
        """The item for an engine without look-around."""
        if self.is_look:
            return ""
        if self.kind == "back":
            return f"(?:{ANY}*)"

        body = _BARE.get(self.body, self.body)
        if self.kind == "open":
            body += "|".join(map(text_of, self.forms)) + ")"
        elif self.kind == "class":
            body = _HYPHEN.sub(r"\\-", body)

        return body + _bounded(self.repeat)


_Sequence: TypeAlias = tuple[_Item, ...]


def sum_of(widths: Iterator[int | None]) -> int | None:
    """Return the sum of widths; None if one varies."""
    known = list(widths)
    return None if None in known else sum(width or 0 for width in known)


def text_of(items: _Sequence) -> str:
    """Return a sequence as text, without its conditions."""
    return "".join(item.text for item in items)


def _bounded(repeat: str) -> str:
    """Widen a counted repeat that an engine would not expand."""
    counted = _REPEAT.fullmatch(repeat)
    if counted is None or counted["least"] is None:
        return repeat

    least = int(counted["least"])
    most = least if not counted["comma"] else int(counted["most"] or 0)
    if max(least, most) <= MAX_REPEATS:
        return repeat
    return f"{{{min(least, MAX_REPEATS)},}}"


class Respelled(NamedTuple):
    """The keywords of a schema that replace a pattern, and whether they replace it completely."""

    schema: dict[str, Any]
    is_exact: bool


def respelled(pattern: str) -> Respelled:
    """Return keywords that replace a pattern, each with a linear pattern.

    Raises InvalidPattern if the text is not a regular expression.
    """
    return _of_forms(_parsed(pattern))


def _of_forms(forms: tuple[_Sequence, ...]) -> Respelled:
    flat = list(_flattened(forms))
    plain = [form for form in flat if all(item.is_plain and _is_counted(item) for item in form)]
    made = [_of_sequence(form) for form in flat if form not in plain]
    if plain:
        made.append(Respelled({"pattern": "|".join(map(text_of, plain))}, is_exact=True))

    is_exact = all(one.is_exact for one in made)
    if len(made) == 1:
        return Respelled(made[0].schema, is_exact)
    return Respelled({"anyOf": [one.schema for one in made]}, is_exact)


def _is_counted(item: _Item) -> bool:
    """Return whether every repeat of an item is kept as written."""
    return _bounded(item.repeat) == item.repeat and all(
        _is_counted(inner) for form in item.forms for inner in form
    )


def _flattened(forms: tuple[_Sequence, ...]) -> Iterator[_Sequence]:
    """Yield alternatives in which no group that occurs once contains a condition."""
    pending = list(forms)
    made = 0
    while pending:
        form = pending.pop(0)
        places = (at for at, item in enumerate(form) if _may_be_opened(item))
        at = next(places, None)
        if at is None or made + len(pending) > MAX_FORMS:
            made += 1
            yield form
            continue

        item = form[at]
        inner = [*item.forms, ()] if item.repeat else [*item.forms]
        pending = [(*form[:at], *one, *form[at + 1 :]) for one in inner] + pending


def _may_be_opened(item: _Item) -> bool:
    is_group = item.kind == "open" and not item.is_look and "-" not in item.body
    has_flags = bool(re.match(r"\(\?[a-z]", item.body)) and not item.body.startswith("(?P<")
    return is_group and not has_flags and not item.is_plain and item.repeat in ("", "?")


def _of_sequence(items: _Sequence) -> Respelled:
    """Split a sequence into a pattern without conditions and the demands of each condition."""
    rest: _Sequence = items
    demands: list[dict[str, Any]] = []
    is_exact = True

    if counted := _counted_whole(items):
        return counted

    # what looks beyond an end of the pattern may become a part of it
    if items[-1].is_look and not items[-1].is_behind and (taken := _taken_in(items[-1])):
        rest = (*rest[:-1], taken)
    if items[0].is_look and items[0].is_behind and (taken := _taken_in(items[0])):
        rest = (taken, *rest[1:])

    for at, item in enumerate(rest):
        if item.is_plain:
            is_exact = is_exact and _is_counted(item)
            continue

        demand = _demand(rest, at) if item.is_look and not item.repeat else None
        if demand is None or not demand.is_exact:
            is_exact = False
        if demand is not None:
            demands.append(demand.schema)

    schema: dict[str, Any] = {"pattern": text_of(rest)}
    if demands:
        schema["allOf"] = demands

    return Respelled(schema, is_exact)


def _counted_whole(items: _Sequence) -> Respelled | None:
    """Return a repeat of one character that is the whole pattern as a limit of the length."""
    inner = items[1:-1]
    if len(inner) != 1 or [items[0].body, items[-1].body] != ["^", "$"]:
        return None

    counted = _REPEAT.fullmatch(inner[0].repeat)
    if counted is None or counted["least"] is None or inner[0].kind not in ("class", "atom"):
        return None

    most = counted["most"] if counted["comma"] else counted["least"]
    bounds = {"minLength": int(counted["least"])} | ({"maxLength": int(most)} if most else {})
    unbounded = _Item(inner[0].kind, inner[0].body, "*")
    return Respelled(
        {"pattern": text_of((items[0], unbounded, items[-1])), **bounds}, is_exact=True
    )


def _taken_in(look: _Item) -> _Item | None:
    """Return a condition at the start or end of a pattern as a part of the pattern."""
    if look.repeat:
        return None
    if look.body.endswith("="):
        return _Item("open", "(?:", "", look.forms)

    form = look.forms[0]
    if len(look.forms) != 1 or len(form) != 1 or form[0].repeat or not _is_character(form[0]):
        return None

    edge = _Item("edge", "^" if look.is_behind else "$")
    return _Item("open", "(?:", "", ((edge,), (_Item("class", _negated(form[0])),)))


def _is_character(item: _Item) -> bool:
    return item.kind == "class" or (item.kind == "atom" and item.body != ".")


def _negated(item: _Item) -> str:
    if item.kind == "class":
        is_negated = item.body.startswith("[^")
        return f"[{item.body[2:]}" if is_negated else f"[^{item.body[1:]}"

    return f"[^{item.body}]"


def _demand(items: _Sequence, at: int) -> Respelled | None:
    """Return what a condition demands of the whole text.

    None if its place cannot be counted from the start or the end.
    """
    look = items[at]
    rest = items[at + 1 :] if look.is_behind else items[:at]
    edge = "$" if look.is_behind else "^"
    edges = [item for item in rest if item.kind == "edge" and item.body == edge]
    outer = rest[-1:] if look.is_behind else rest[:1]
    width = sum_of(item.width for item in rest)
    if width is None or not edges or list(outer) != edges[:1]:
        return None

    gap = (_Item("class", ANY, f"{{{width}}}"),) if width else ()
    inner = _Item("open", "(?:", "", look.forms)
    bound = _Item("edge", edge)
    whole = (inner, *gap, bound) if look.is_behind else (bound, *gap, inner)
    found = _of_forms((whole,))
    if look.body.endswith("="):
        return found

    # without one of its conditions, more would be excluded than intended
    if not found.is_exact:
        return None
    return Respelled({"not": {"type": "string", **found.schema}}, is_exact=True)


def _parsed(pattern: str) -> tuple[_Sequence, ...]:
    """Parse a pattern into its alternatives."""
    stack: list[tuple[str, list[list[_Item]]]] = [("", [[]])]
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise InvalidPattern(pattern)

        at = token.end()
        kind = str(token.lastgroup)
        if kind == "open":
            stack.append((token[0], [[]]))
            continue
        if kind == "either":
            stack[-1][1].append([])
            continue

        item = _Item(kind, token[0])
        if kind == "close":
            opening, forms = stack.pop()
            if not stack:
                raise InvalidPattern(pattern)
            item = _Item("open", opening, "", tuple(map(tuple, forms)))

        repeat = _REPEAT.match(pattern, at)
        if repeat is not None:
            at = repeat.end()
            item = _Item(item.kind, item.body, repeat[0], item.forms)

        stack[-1][1][-1].append(item)

    if len(stack) != 1:
        raise InvalidPattern(pattern)
    return tuple(map(tuple, stack[0][1]))


_SHORT: Final = re.compile(
    r"\\(?P<name>[wdsWDS])|\\.|(?P<open>\[\^?)|(?P<close>\])|(?P<dot>\.)", re.DOTALL
)


def spelled_out(pattern: str, meanings: dict[str, str], *, dot: str = ".") -> str:
    r"""Write ``\w``, ``\d`` and ``\s`` as the characters that they mean.

    A negated one inside of a class is left as it is, where no engine has another word for it.
    """
    inside = False

    def spell(found: re.Match[str]) -> str:
        nonlocal inside
        if found["open"] and not inside:
            inside = True
        elif found["close"]:
            inside = False
        elif found["dot"] and not inside:
            return dot

        name = found["name"] or ""
        meaning = meanings.get(name.lower())
        if meaning is None:
            return found[0]
        if name.islower():
            return meaning if inside else f"[{meaning}]"
        if not inside:
            return f"[^{meaning}]"

        # one property alone has a negation that can stand in a class
        return f"\\P{meaning[2:]}" if re.fullmatch(r"\\p\{\w+\}", meaning) else found[0]

    return _SHORT.sub(spell, pattern)
