"""How far replies are enforced, read again for each call because a flag service may change it."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from traceback import extract_tb
from typing import Any, TypeAlias, get_args

from strictreply.contract._tool import must_be_awaited
from strictreply.values._errors import ContractError
from strictreply.values._issues import printable
from strictreply.values._limits import Mode

GivenMode: TypeAlias = Mode | Callable[[], str] | None
"""A mode, or a function without arguments that returns it; None for the environment's mode."""

GivenTools: TypeAlias = Collection[str] | Callable[[], Collection[str]] | None
"""Names of tools, or a function without arguments that returns them."""

GivenShare: TypeAlias = float | Callable[[], float] | None
"""A share of all calls, from 0 to 1, or a function without arguments that returns it."""

PREFIX = "STRICTREPLY_"
"""How the name of each environment variable of strictreply begins."""

_BEGINNINGS = (PREFIX, "STRICT_REPLY_")
"""That, and how it is usually misspelt."""

_VARIABLES = ("MODE", "ENFORCE", "OBSERVE", "LEDGER", "CONTRACT", "MAX_LOOP_COUNT")
"""The rest of their names."""

_OTHERS_MODES = frozenset({"json", "md_json", "tools", "native", "text", "prompted", "functions"})
"""Values of ``mode=`` in other libraries."""

_NEAR = 0.75  # of difflib: "MODES" is near "MODE", "SUITE" is not

logger = logging.getLogger("strictreply")


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How far the reply to one call is enforced."""

    tools: frozenset[str] | None = None
    """The tools whose faults are enforced; None enforces all faults, an empty set no fault."""
    is_judged: bool = True
    """Whether the reply is judged even if nothing is enforced."""

    @property
    def is_whole(self) -> bool:
        """Whether every fault is enforced."""
        return self.tools is None

    @property
    def is_beside(self) -> bool:
        """Whether nothing is enforced, so that the original client makes the call."""
        return self.tools is not None and not self.tools


WHOLE = Enforcement()
"""Every fault is enforced."""


class Rollout:
    """How far the replies of one client are enforced: values, or functions that return them.

    If none is given, the environment applies: ``STRICTREPLY_MODE``, ``STRICTREPLY_ENFORCE`` (names
    of tools, separated by commas) and ``STRICTREPLY_OBSERVE``. If a function raises or returns a
    wrong value, or a variable gets one later, that is logged once and the last valid value is used.
    Raises ContractError for a wrong value that is passed itself or that a variable has now, and for
    an async function.
    """

    __slots__ = ("_enforce", "_fixed", "_mode", "_named", "_share")

    def __init__(
        self, mode: GivenMode = None, enforce: GivenTools = None, observe: GivenShare = None
    ) -> None:
        given = (mode, enforce, observe)
        is_environments = all(one is None for one in given)
        self._mode = _Setting("mode", mode, _mode_of, is_environments=is_environments)
        self._enforce = _Setting("enforce", enforce, _tools_of, is_environments=is_environments)
        self._share = _Setting("observe", observe, _share_of, is_environments=is_environments)

        self._named: set[str] = set()
        # values that cannot change are read once
        self._fixed: Enforcement | None = None
        if not is_environments and not any(map(callable, given)) and self._share.now() in (None, 1):
            self._fixed = self._read()

    def now(self) -> Enforcement:
        """Return how far a reply is enforced now."""
        return self._fixed or self._read()

    def _read(self) -> Enforcement:
        mode = self._mode.now()
        tools = self._enforce.now()
        share = self._share.now()
        if mode is None:
            mode = "enforce" if tools is None and share is None else "observe"

        if mode == "enforce" and not tools:
            return WHOLE
        if mode == "off":
            return Enforcement(frozenset(), is_judged=False)

        is_sampled = share is None or share >= 1 or random.random() < share  # noqa: S311
        return Enforcement(tools or frozenset(), is_sampled)

    def note(self, enforced: frozenset[str], callable_: Collection[str]) -> None:
        """Log once each enforced tool that a request with tools does not declare.

        Its name may be misspelt, and then it would never be enforced. A tool that an earlier
        request declared is not logged.
        """
        if not callable_:
            return

        missing = enforced.difference(callable_) - self._named
        self._named |= enforced
        for name in sorted(missing):
            near = get_close_matches(name, [*callable_], 1)
            logger.warning(
                "%s names %r, but this request has no such tool%s. No call is enforced by that "
                "name: check the spelling, and separate names with commas",
                self._enforce.label,
                printable(name),
                printable(f" (did you mean {near[0]!r}?)") if near else "",
            )

    def refuse_unknown(self, declared: Iterable[str]) -> None:
        """Raise ContractError for an enforced tool whose name resembles a declared one.

        Requests may still declare a tool of any other name.
        """
        given = self._enforce.given
        known = list(declared)
        if not known or callable(given) or given is None:
            return

        for name in sorted(_tools_of(given) - set(known)):
            near = get_close_matches(name, known, 1)
            if near:
                raise ContractError(
                    f"enforce= names {name!r}, which is not a declared tool; did you mean "
                    f"{near[0]!r}?"
                )


class _Setting:
    """One of the three settings, with its last valid value."""

    __slots__ = ("_last", "_logged", "_read", "_variable", "given", "label")

    def __init__(
        self, name: str, given: Any, read: Callable[[Any, str], Any], *, is_environments: bool
    ) -> None:
        if callable(given) and must_be_awaited(given):
            raise ContractError(f"{name}= must be a sync function: an async one is not awaited")

        self.given = given
        self._variable = f"{PREFIX}{name.upper()}" if is_environments else ""
        self.label = self._variable or f"{name}="
        self._read = read
        self._logged = False
        present = os.environ.get(self._variable) if self._variable else given
        is_value = bool(present) if self._variable else given is not None and not callable(given)
        self._last: Any = read(present, self._variable or name) if is_value else None

    def now(self) -> Any:
        """Return the present value; None if there is none."""
        if not self._variable and not callable(self.given):
            return self._last

        given = os.environ.get(self._variable) if self._variable else self.given
        if not given:
            self._last = None
            self._logged = False
            return None

        try:
            self._last = self._read(given() if callable(given) else given, self.label.rstrip("="))
            self._logged = False
        except Exception as error:  # noqa: BLE001 - a flag service may raise anything
            self._log(error)

        return self._last

    def _log(self, error: Exception) -> None:
        if self._logged:
            return

        self._logged = True
        words = str(error)
        if not isinstance(error, ContractError):
            words = f"{self.label} raised {type(error).__name__}"
            # the place, and not the words, which may have a secret of the flag service
            for frame in extract_tb(error.__traceback__)[-1:]:
                words += f" at {frame.filename}:{frame.lineno}"

        used = "it counts as not given" if self._last is None else "the last valid value is used"
        logger.error(printable(f"{words}; {used}"))


def warn_of_misspelt_variables() -> None:
    """Log once each variable whose name resembles the name of a variable that is read."""
    for name in os.environ:
        if name.upper().startswith(_BEGINNINGS):
            _warn_of(name)


@cache
def _warn_of(name: str) -> None:
    rest = name.upper()
    for beginning in _BEGINNINGS:
        rest = rest.removeprefix(beginning)

    near = get_close_matches(rest, _VARIABLES, 1, _NEAR)
    if near and name.removeprefix(PREFIX) not in _VARIABLES:
        logger.warning(
            "strictreply does not read the environment variable %s; did you mean %s?",
            printable(name),
            PREFIX + near[0],
        )


def _mode_of(given: object, name: str) -> Mode:
    modes = get_args(Mode)
    for mode in modes:
        if given == mode:
            found: Mode = mode
            return found

    more = ""
    if isinstance(given, str):
        near = get_close_matches(given.strip().lower(), modes, 1)
        more = f"; did you mean {near[0]!r}?" if near else ""
        if given.lower() in _OTHERS_MODES:
            more = "; to choose how the model writes calls, use channel="

    function = "" if name.startswith(PREFIX) else ", or a function that returns one"
    raise ContractError(
        f"{name} must be one of {', '.join(modes)}{function}, not {_shown(given)}{more}"
    )


def _tools_of(given: object, name: str = "enforce") -> frozenset[str]:
    listed: Any = given.split(",") if isinstance(given, str) else given
    names: list[Any] = [None]
    if isinstance(listed, Iterable) and not isinstance(listed, bytes):
        names = list(listed)

    if not all(isinstance(one, str) for one in names) or "*" in names:
        shown = _shown(given) if isinstance(given, bool | str | int) else _shown_items(names)
        raise ContractError(
            f'{name} must be names of tools, as in enforce={{"refund"}}, or a function that '
            f'returns them, not {shown}; to enforce all tools, pass mode="enforce" and no enforce='
        )

    found = frozenset(one.strip() for one in names if one.strip())
    if not found and name.startswith(PREFIX):
        raise ContractError(f"{name}={_shown(given)} names no tool: name tools, or unset it")

    return found


def _share_of(given: object, name: str) -> float:
    try:
        share = float(given) if isinstance(given, str) else given
    except ValueError:
        share = None

    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        example = f"{name}=0.01"
        raise ContractError(
            f"{name} must be the share of calls to judge, from 0 to 1, as in {example}, "
            f"not {_shown(given)}"
        )

    return float(share)


def _shown_items(names: list[Any]) -> str:
    if "*" in names:
        return "'*'"

    wrong = next(one for one in names if not isinstance(one, str))
    return "nothing" if wrong is None else f"a list with a {type(wrong).__name__} in it"


def _shown(given: object) -> str:
    return repr(given) if isinstance(given, str | int | float) else type(given).__name__
