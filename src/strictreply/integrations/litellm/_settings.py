"""The settings of the guard, from its keywords or from the proxy's configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from strictreply import Contract, ContractError, RetryPolicy
from strictreply.core import JSONObject, UsageMode
from strictreply.core.arguments import must_be
from strictreply.core.calls import Rollout
from strictreply.integrations.litellm._modes import HOW, Rule, rollout_of, rules_of

OtherRoutes: TypeAlias = Literal["refuse", "pass"]

SETTINGS: Final = frozenset(
    {"contract", "policy", "usage_mode", "other_routes", "pass_routes", "modes", *HOW}
)
"""The names of the settings."""


class ProxySettings(NamedTuple):
    """The settings, after all checks."""

    contract: Contract | None
    """The contract of all models; None if each model has its own or none."""
    contracts: Mapping[str, Contract]
    """Contracts by the model's name in the proxy."""
    policy: RetryPolicy
    """The retry policy."""
    usage_mode: UsageMode
    """Which tokens the client sees: those of all requests or of the last."""
    other_routes: OtherRoutes
    """Whether routes that are not judged are refused or pass."""
    pass_routes: tuple[str, ...]
    """Paths that pass without a verdict; ``*`` matches anything."""
    rollout: Rollout
    """How far replies are enforced if no rule matches."""
    rules: tuple[Rule, ...]
    """The rules for some models, keys and teams; the first rule that matches applies."""


def settings_of(given: JSONObject) -> ProxySettings:
    """Return the settings in a mapping; raise ContractError for a wrong one."""
    must_be("strictreply", given, dict, f"a mapping with {', '.join(sorted(SETTINGS))}")
    if unknown := given.keys() - SETTINGS:
        raise ContractError(
            f"unknown setting {min(unknown)!r}; the settings are {', '.join(sorted(SETTINGS))}"
        )

    named = given.get("contract") or os.environ.get("STRICTREPLY_CONTRACT")
    contracts: dict[str, Contract] = {}
    if isinstance(named, Mapping):
        contracts = {str(model): _contract(one) for model, one in named.items()}

    policy = given.get("policy") or {}
    with _naming("policy"):
        if isinstance(policy, Mapping):
            keywords: dict[str, Any] = {"early_stop": "off", **policy}
            policy = RetryPolicy(**keywords)
        must_be("policy", policy, RetryPolicy, "a mapping of the keywords of a RetryPolicy")

    usage_mode = given.get("usage_mode", "total")
    other_routes = given.get("other_routes", "refuse")
    chosen = (("usage_mode", usage_mode, UsageMode), ("other_routes", other_routes, OtherRoutes))
    for name, value, allowed in chosen:
        if value not in get_args(allowed):
            raise ContractError(f"{name} must be one of {', '.join(get_args(allowed))}")

    declared = _contract(named) if named and not isinstance(named, Mapping) else None
    passed = _paths(given.get("pass_routes") or ())
    rollout = rollout_of(given)
    rules = rules_of(given.get("modes") or ())

    if declared is not None:
        for one in (rollout, *(rule.rollout for rule in rules)):
            one.refuse_unknown(tool.name for tool in declared.tools)

    return ProxySettings(
        declared, contracts, policy, usage_mode, other_routes, passed, rollout, rules
    )


def _paths(given: object) -> tuple[str, ...]:
    listed: list[Any] = list(given) if isinstance(given, list | tuple) else [None]
    if not all(isinstance(one, str) and one.startswith("/") for one in listed):
        raise ContractError("pass_routes must be a list of paths that begin with /")

    return tuple(listed)


@contextmanager
def _naming(setting: str) -> Generator[None]:
    """Raise an error in a setting as a ContractError that names the setting.

    A user's module may raise any exception.
    """
    try:
        yield
    except Exception as error:
        raise ContractError(f"litellm_settings.strictreply.{setting}: {error}") from error


def _contract(named: object) -> Contract:
    """Return the contract of a setting: itself, or from ``module:name`` or a JSON file."""
    with _naming(f"contract {named!r}" if isinstance(named, str) else "contract"):
        if isinstance(named, str) and named.endswith(".json"):
            document = json.loads(Path(named).read_text(encoding="utf-8"))
            return Contract(**document) if isinstance(document, dict) else Contract(tools=document)

        if isinstance(named, str):
            module, _, name = named.partition(":")
            named = attrgetter(name)(import_module(module)) if name else named

        must_be(
            "contract", named, Contract, "a Contract, module:name of one, or a JSON file of tools"
        )

    return named  # type: ignore[return-value]  # must_be has checked it
