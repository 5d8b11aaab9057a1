"""Which declared contract holds for a request.

A program may name a model by an alias, a team's name, an id or a group, and the router may serve it
by a fallback.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from strictreply import Contract, ContractError
from strictreply.core import JSONObject
from strictreply.integrations.litellm._settings import ProxySettings

_FALLBACKS: Final = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")


class _Registry(NamedTuple):
    """What the router of the proxy knows of its models; everything is empty outside of a proxy."""

    aliases: Mapping[str, Any]
    """What each alias stands for."""
    deployments: Sequence[Mapping[str, Any]]
    """All deployments."""
    fallbacks: Sequence[object]
    """The tables of the models that replace others."""
    list_serving: Any
    """Lists the deployments of a model; None outside of a proxy."""
    list_groups: Any
    """Lists the models of an access group; None outside of a proxy."""

    @classmethod
    def running(cls) -> _Registry:
        """Return that of the proxy of this process."""
        router: Any = getattr(sys.modules.get("litellm.proxy.proxy_server"), "llm_router", None)
        if router is None:
            return cls({}, (), (), None, None)

        if hasattr(router, "registry"):  # since LiteLLM 1.110
            registry = router.registry()
            settings = router.settings()
            tables = [getattr(settings, name, None) for name in _FALLBACKS]
            return cls(
                registry.aliases(),
                registry.all(),
                tables,
                registry.deployments,
                registry.access_groups,
            )

        tables = [getattr(router, name, None) for name in _FALLBACKS]
        listed = (router.get_model_list, router.get_model_access_groups)
        return cls(router.model_group_alias or {}, router.model_list, tables, *listed)

    def serving(self, model: str, team: str | None) -> Iterable[Mapping[str, object]]:
        """Return the deployments of a model, by its name, an alias or a pattern."""
        if self.list_serving is None:
            return ()

        return self.list_serving(model_name=model, team_id=team) or ()

    def members(self, group: str) -> Iterable[str]:
        """Return the names of the models of an access group."""
        if self.list_groups is None:
            return ()

        names: Iterable[str] = self.list_groups(model_access_group=group).get(group, ())
        return names


def contract_for(settings: ProxySettings, data: JSONObject) -> Contract | None:
    """Return the declared contract for a request; None if there is none.

    It is the contract of the model name in the request, else of the same model by another name,
    else of a model that the router falls back to. Raises ContractError if several different
    contracts would apply equally.
    """
    if not settings.contracts:
        return settings.contract

    registry = _Registry.running()
    model = data.get("model")
    named = [one.strip() for one in model.split(",")] if isinstance(model, str) else []
    same = list(dict.fromkeys(name for one in named for name in _same(one, data, registry)))

    for names in (named, same, _reached(same, data, registry)):
        contracts = _held(settings, names)
        if len(contracts) > 1:
            raise ContractError(
                f"model {model!r} leads to several models with different contracts; "
                "request one of them by its own name"
            )
        if contracts:
            return contracts[0]

    return settings.contract


def contract_of_group(settings: ProxySettings, kwargs: JSONObject) -> Contract | None:
    """Return the contract that is declared for the model that serves a call."""
    for name in ("litellm_metadata", "metadata"):
        metadata = kwargs.get(name)
        group = metadata.get("model_group") if isinstance(metadata, Mapping) else None
        if isinstance(group, str) and (contracts := _held(settings, (group,))):
            return contracts[0]

    return settings.contract


def _held(settings: ProxySettings, names: Iterable[str]) -> list[Contract]:
    """Return the different contracts that are declared for these names."""
    found: list[Contract] = []
    for name in names:
        contract = settings.contracts.get(name)
        if contract is None:
            patterns = [one for one in settings.contracts if "*" in one and fnmatchcase(name, one)]
            contract = settings.contracts[max(patterns, key=len)] if patterns else None

        if contract is not None and not any(contract is one for one in found):
            found.append(contract)

    return found


def _same(model: str, data: JSONObject, registry: _Registry) -> Iterator[str]:
    """Yield the names of one model: in the router, of a team, and of its groups."""
    yield model
    yield from registry.members(model)

    alias = registry.aliases.get(model)
    target = alias.get("model") if isinstance(alias, Mapping) else alias
    if isinstance(target, str):
        yield target

    for deployment in _serving(model, data, registry):
        information = deployment.get("model_info") or {}
        for name in (deployment.get("model_name"), information.get("team_public_model_name")):
            if isinstance(name, str):
                yield name

        yield from information.get("access_groups") or ()


def _serving(model: str, data: JSONObject, registry: _Registry) -> Iterator[Mapping[str, Any]]:
    """Yield the deployments that serve a model: by its name, else by its id or provider's name."""
    yield from registry.serving(model, _team(data))
    if any(deployment.get("model_name") == model for deployment in registry.deployments):
        return

    for deployment in registry.deployments:
        information = deployment.get("model_info") or {}
        provider = (deployment.get("litellm_params") or {}).get("model")
        if model in (information.get("id"), provider):
            yield deployment


def _team(data: JSONObject) -> str | None:
    for name in ("metadata", "litellm_metadata"):
        metadata = data.get(name)
        team = metadata.get("user_api_key_team_id") if isinstance(metadata, Mapping) else None
        if isinstance(team, str):
            return team

    return None


def _reached(names: Iterable[str], data: JSONObject, registry: _Registry) -> list[str]:
    """Return the names of the models that the router may fall back to."""
    override = data.get("router_settings_override")
    sources: list[Any] = [data, override if isinstance(override, Mapping) else {}]
    tables = [source.get(name) for source in sources for name in _FALLBACKS]
    tables += registry.fallbacks

    waiting = list(names)
    seen = set(waiting)
    reached: list[str] = []

    while waiting:
        name = waiting.pop(0)
        targets = [target for table in tables for target in _targets(table, name)]
        for one in [one for target in targets for one in _same(target, data, registry)]:
            if one not in seen:
                seen.add(one)
                reached.append(one)
                waiting.append(one)

    return reached


def _targets(table: object, name: str) -> Iterator[str]:
    """Yield the models behind one: of a router's table, or of a request's own list."""
    entries: list[Any] = table if isinstance(table, list) else []
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, Mapping) and isinstance(entry.get("model"), str):
            yield str(entry["model"])
        elif isinstance(entry, Mapping):
            for of, targets in entry.items():
                if fnmatchcase(name, str(of)):
                    yield from _targets(targets, name)
