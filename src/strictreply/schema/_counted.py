"""Keywords whose work the engines do not limit: it is counted here, against the reply's limit.

``uniqueItems`` is judged here, in linear time, because the engines compare all large integers with
each other. A pattern with counted repeats costs, for each character, as much as it has states. A
number with many digits, or with a large exponent, costs far more than others.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from strictreply.values._limits import JSON, JSONObject, Spent, Work

UNIT_STEPS = 1_280  # units, of about 10 ns each, in one step of work
COMPARED = 60  # units for one value that is compared with the others of its array
ALIKE = 6  # the same, if all values are texts or all are small integers
DIVIDED = 60  # units for one number that is divided by a fraction
MAX_BITS = 64  # integers up to this size cost little, as do floats with exponents up to the next
MAX_EXPONENT = 56
DIGIT_BITS = 3.3
FEW_REPEATS = 16  # states of counted repeats that are not counted for each character
LIGHT_CHARS = 4  # characters that any other pattern reads in one unit
FEW_PATTERNS = 8
SAFE_BITS = 60  # the bits of integers whose hash is their value, so that no two collide
MANY_KEYS = 256  # with fewer keys, comparing all with all takes hardly any time
COLLIDED = 10  # units for comparing two typed keys with the same hash
LONG_NUMBER = 19  # numbers with so many digits can be chosen so that they collide
_CONTAINERS = (dict, list)
_NUMBER = re.compile(r"[+-]?[\d._]+(?:[eE][+-]?\d{1,4})?", re.ASCII)
_OPENING = re.compile(r"\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:?))?")
_UUID = re.compile(r"(?:urn:uuid:)?\{?([0-9a-fA-F-]{32,36})\}?")


class _Meter(threading.local):
    """The work limit of the judgement in this thread."""

    work: Work | None = None
    units: int = 0
    is_spent: bool = False


_METER = _Meter()


@contextmanager
def metered(work: Work) -> Generator[None, None, None]:
    """Subtract from ``work`` what the keywords of one judgement cost.

    Raises Spent at the end if it was more than was left. The judgement is then meaningless.
    """
    outer = (_METER.work, _METER.units, _METER.is_spent)
    _METER.work = work
    _METER.units = 0
    _METER.is_spent = False

    try:
        yield
        is_spent = _METER.is_spent or not work.afford(_METER.units // UNIT_STEPS)
    finally:
        _METER.work, _METER.units, _METER.is_spent = outer

    if is_spent:
        raise Spent


def afford(units: int) -> bool:
    """Count some units, and return whether there were enough.

    Outside of :func:`metered` there always are; inside, there are not any once the work is spent.
    """
    if _METER.work is None or _METER.is_spent:
        return not _METER.is_spent

    _METER.units += units
    if _METER.units >= UNIT_STEPS:
        steps, _METER.units = divmod(_METER.units, UNIT_STEPS)
        _METER.is_spent = not _METER.work.afford(steps)

    return not _METER.is_spent


@dataclass(frozen=True, slots=True)
class Costs:
    """What judging values by a document may cost in addition to its judgements.

    - ``keywords``: those that have to be counted when they apply.
    - ``of_numbers``: numbers are compared.
    - ``of_keys``: typed values may be sets, or mappings with typed keys.
    - ``states``: the largest cost per character of a pattern for names of members.
    """

    keywords: frozenset[str] = frozenset()
    of_numbers: bool = False
    of_keys: bool = False
    states: int = 0


COMPARING = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})


def costs_of(document: object) -> Costs:
    """Return what values may cost by a document.

    Every object in it counts as a schema, so that none is overlooked.
    """
    keywords: set[str] = set()
    patterns: set[str] = set()
    states = 0
    of_numbers = False
    of_keys = False
    pending: list[Any] = [document]

    for part in pending:  # grows while it is walked
        if isinstance(part, list):
            pending += [each for each in part if isinstance(each, _CONTAINERS)]
        if not isinstance(part, dict):
            continue

        pending += [each for each in part.values() if isinstance(each, _CONTAINERS)]
        if part.get("uniqueItems") is True:
            keywords.add("uniqueItems")
        if _is_number(part.get("multipleOf")):
            keywords.add("multipleOf")
        if isinstance(part.get("pattern"), str):
            patterns.add(part["pattern"])

        others = part.get("additionalProperties")
        of_keys = of_keys or part.get("uniqueItems") is True or isinstance(others, dict)

        members = part.get("patternProperties")
        if isinstance(members, dict):
            of_keys = True
            states = max(states, *map(states_of, members), 0)

        listed = part.get("enum")
        given = [*(listed if isinstance(listed, list) else ()), part.get("const")]
        of_numbers = of_numbers or not COMPARING.isdisjoint(part) or any(map(_holds_number, given))

    if len(patterns) > FEW_PATTERNS or any(states_of(each) > FEW_REPEATS for each in patterns):
        keywords.add("pattern")

    states = states if states > FEW_REPEATS else 0
    return Costs(frozenset(keywords), of_numbers, of_keys, states)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _holds_number(value: object) -> bool:
    return _is_number(value) or isinstance(value, _CONTAINERS)


@lru_cache(maxsize=512)
def states_of(pattern: str) -> int:
    """Estimate the states that the counted repeats of a pattern make; 0 if there are none."""
    sizes = [0]  # the states of the open groups
    counted = [0]  # the states of their counted repeats
    last = (0, 0)  # the same two numbers of the last atom
    index = 0

    while index < len(pattern):
        char = pattern[index]
        if char == "(":
            sizes.append(0)
            counted.append(0)
            last = (0, 0)
            index = _OPENING.match(pattern, index).end() - 1  # type: ignore[union-attr]
        elif char == ")" and len(sizes) > 1:
            last = (sizes.pop(), counted.pop())
            sizes[-1] += last[0]
            counted[-1] += last[1]
        elif char == "{" and (most := _most_repeats(pattern, index)) is not None:
            size, inner = last
            more = size * most
            sizes[-1] += more - size
            counted[-1] += (more if most > 1 else inner) - inner
            last = (more, more if most > 1 else inner)
            index = pattern.index("}", index)
        elif char not in "*+?|^$":
            index = _end_of_atom(pattern, index)
            last = (1, 0)
            sizes[-1] += 1

        index += 1

    return sum(counted)


def _most_repeats(pattern: str, index: int) -> int | None:
    """Return the largest number in ``{2,5}``; None for braces that are not a repeat."""
    inside = pattern[index + 1 : pattern.find("}", index)]
    numbers = [each.strip() for each in inside.split(",")]
    if len(numbers) > 2 or not numbers[0].isdecimal():  # noqa: PLR2004 - from and to
        return None

    return max(int(each) for each in numbers if each.isdecimal())


def _end_of_atom(pattern: str, index: int) -> int:
    """Return the index of the last character of an atom: an escape, a class or one character."""
    if pattern[index] == "\\":
        has_braces = pattern[index + 1 : index + 2] in ("p", "P", "x", "u", "U")
        if has_braces and pattern[index + 2 : index + 3] == "{":
            return max(pattern.find("}", index), index + 1)
        return index + 1

    if pattern[index] != "[":
        return index

    depth = 0
    while index < len(pattern):
        if pattern[index] == "\\":
            index += 1
        elif pattern[index] == "[":
            depth += 1
        elif pattern[index] == "]":
            depth -= 1
            if depth == 0:
                break

        index += 1

    return index


def beyond_judgements(costs: Costs, value: object) -> int:
    """Return the units that numbers and names in a value cost more than other values."""
    if not (costs.of_numbers or costs.states):
        return 0

    pending: list[Any] = [value]
    units = 0

    for part in pending:  # grows while it is walked
        below: Iterable[Any] = (part,)
        if isinstance(part, list):
            below = part
        elif isinstance(part, dict):
            below = part.values()
            units += costs.states * sum(map(len, part)) if costs.states else 0

        for each in below:
            kind = each.__class__
            if kind is int or kind is float:
                units += digits_cost(each)
            elif kind is dict or kind is list:
                pending.append(each)

    return units


def digits_cost(number: float) -> int:
    """Return the units of a number with many digits or a large exponent; 0 for any other."""
    if isinstance(number, int):
        bits = number.bit_length()
        if bits <= MAX_BITS:
            return 0

        digits = int(bits / DIGIT_BITS)
        return 10 * digits + digits * digits // 150

    exponent = abs(math.frexp(number)[1])
    return 0 if exponent <= MAX_EXPONENT else 100 + 3 * exponent


def colliding_units(value: object) -> int:
    """Return the units for sets and mappings with colliding typed keys.

    Python hashes numbers, and values that contain them, without a secret.
    """
    pending: list[Any] = [value]
    units = 0

    for part in pending:  # grows while it is walked
        if not isinstance(part, _CONTAINERS):
            continue

        pending += part.values() if isinstance(part, dict) else part
        if len(part) >= MANY_KEYS:
            sizes = Counter(map(_hash_class, part)).values()
            units += COLLIDED * sum(size * (size - 1) // 2 for size in sizes)

    return units


def _hash_class(value: object) -> object:
    """Return a value that is equal for values whose typed forms may have equal hashes."""
    if isinstance(value, list):
        return tuple(map(_hash_class, value))
    if isinstance(value, dict):
        return tuple(map(_hash_class, value.values()))
    if not isinstance(value, str):
        return hash(value)

    is_number = len(value) >= LONG_NUMBER and _NUMBER.fullmatch(value)
    if is_number:
        with suppress(ArithmeticError, ValueError):
            return hash(Decimal(value))

    found = _UUID.fullmatch(value)
    return hash(int(found[1].replace("-", "") or "0", 16)) if found else value


def all_unique(items: list[JSON]) -> bool:
    """Return whether no two items are equal, as JSON Schema compares values.

    The time is linear for all kinds of items.
    """
    if len(items) < 2:  # noqa: PLR2004 - a single item is unique
        return True

    if _are_alike(items):
        return afford(ALIKE * len(items)) and len(set(items)) == len(items)
    if not afford(COMPARED * len(items)):
        return False

    seen: set[str] = set()
    for item in items:
        key = _key(item)
        if key in seen:
            return False

        seen.add(key)

    return True


def _are_alike(items: list[Any]) -> bool:
    """Return whether a set of the items is fast: all are texts, or integers without collisions."""
    kinds = set(map(type, items))
    if kinds != {int}:
        return kinds == {str}

    return all(each.bit_length() <= SAFE_BITS for each in (min(items), max(items)))


def _key(value: Any) -> str:
    """Return a text that is the same for equal values only.

    Texts are hashed with a secret, so an attacker cannot choose values that collide.
    """
    kind = value.__class__
    if kind is str:
        return f'"{len(value)}:{value}'
    if kind is float and value.is_integer():
        value = int(value)
    if isinstance(value, bool | float) or value is None:
        return repr(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= SAFE_BITS else hex(value)
    if not afford(COMPARED * len(value)):
        return ""

    if kind is list:
        return f"[{','.join(map(_key, value))}]"

    members = sorted((_key(name), _key(member)) for name, member in value.items())
    return f"{{{','.join(name + member for name, member in members)}}}"


def is_beside_length(schema: JSONObject, value: object) -> bool:
    """Return whether a text with a slow pattern is longer than ``maxLength``."""
    if not isinstance(value, str) or len(value) <= schema.get("maxLength", math.inf):
        return False
    return states_of(schema["pattern"]) > FEW_REPEATS


def pattern_units(states: int, text: str) -> int:
    """Return the units that matching a text costs."""
    if states > FEW_REPEATS:
        return states * len(text)

    return len(text) // LIGHT_CHARS


def division_units(divisor: float, number: float) -> int:
    """Return the units that dividing a number costs."""
    units = digits_cost(number) + digits_cost(divisor)
    return units if float(divisor).is_integer() else units + DIVIDED


def _affords_division(divisor: float, value: JSON) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    return afford(division_units(divisor, value))


@dataclass(frozen=True, slots=True)
class Counted:
    """One keyword of one schema, as it is checked for each value.

    ``judge`` decides by the keyword alone, without counting.
    """

    keyword: str
    schema: dict[str, Any]
    judge: Callable[[JSON], bool]

    def holds(self, value: JSON) -> bool:
        """Return whether a value fits the keyword; False if the work is used up."""
        expected = self.schema[self.keyword]

        if self.keyword == "uniqueItems":
            return not (expected and isinstance(value, list)) or all_unique(value)

        if self.keyword == "pattern":
            if not isinstance(value, str):
                return True

            if is_beside_length(self.schema, value):
                return False
            if not afford(pattern_units(states_of(expected), value)):
                return False
        elif not _affords_division(expected, value):
            return False

        return self.judge(value)
