"""How far the reply to a request is enforced: by its model, key or team, else by the default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from strictreply import ContractError
from strictreply.core import JSONObject
from strictreply.core.arguments import must_be
from strictreply.core.calls import Enforcement, Rollout
from strictreply.core.forms import peek

HOW: Final = ("mode", "enforce", "observe")
"""The settings for how far replies are enforced."""

_WHOSE: Final = ("model", "key", "team")
_RULE: Final = "a list of rules, as in [{key: trial-*, mode: observe}]"


class Rule(NamedTuple):
    """How far the replies of some requests are enforced."""

    patterns: Mapping[str, str]
    """Patterns of ``model``, ``key`` and ``team``; each of them must match."""
    rollout: Rollout
    """How far these replies are enforced."""

    def fits(self, names: Mapping[str, Iterable[str]]) -> bool:
        """Return whether each pattern matches one of the names that a request has for it."""
        for whose, pattern in self.patterns.items():
            if not any(fnmatchcase(name, pattern) for name in names[whose]):
                return False

        return True


def rollout_of(given: JSONObject) -> Rollout:
    """Return how far some settings enforce replies; raise ContractError for a wrong one."""
    mode: Any = given.get("mode")
    if mode is False:
        mode = "off"  # YAML reads the bare word as False

    return Rollout(mode, given.get("enforce"), given.get("observe"))


def rules_of(given: object) -> tuple[Rule, ...]:
    """Return the rules of the setting ``modes``; raise ContractError for a wrong one."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ContractError(f"modes must be {_RULE}")

    return tuple(_rule_of(one, f"modes[{number}]") for number, one in enumerate(given))


def _rule_of(given: object, named: str) -> Rule:
    must_be(named, given, Mapping, "a mapping, as in {key: trial-*, mode: observe}")
    rule: Any = given

    known = {*_WHOSE, *HOW}
    if unknown := sorted(map(str, rule.keys() - known)):
        raise ContractError(f"{named} has no {unknown[0]!r}: it has {', '.join(sorted(known))}")

    patterns = {whose: rule[whose] for whose in _WHOSE if rule.get(whose) is not None}
    if not patterns or not all(isinstance(one, str) for one in patterns.values()):
        raise ContractError(
            f"{named} must have a model, a key or a team: a name, or a pattern with *"
        )

    if all(rule.get(how) is None for how in HOW):
        raise ContractError(f"{named} must have at least one of {', '.join(HOW)}")

    try:
        return Rule(patterns, rollout_of(rule))
    except ContractError as error:
        raise ContractError(f"{named}: {error}") from None


def enforcement_for(
    rules: Iterable[Rule], rollout: Rollout, data: JSONObject, caller: object
) -> Enforcement:
    """Return how far the reply to a request is enforced now: by the first rule that matches.

    ``caller`` is what LiteLLM knows about the key; None if it knows nothing.
    """
    # an alias of a key or a team has replaced the name that the client sent
    sent = peek(peek(data.get("proxy_server_request"), "body"), "model")
    names = {
        "model": _texts(sent, data.get("model")),
        "key": _texts(*(getattr(caller, name, None) for name in ("key_alias", "api_key"))),
        "team": _texts(*(getattr(caller, name, None) for name in ("team_alias", "team_id"))),
    }
    chosen = next((rule.rollout for rule in rules if rule.fits(names)), rollout)
    return chosen.now()


def _texts(*given: object) -> list[str]:
    return [one for one in given if isinstance(one, str)]
