"""Which agent has which tools: declared once for all, agent by agent, or by the agent itself; each compiled once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias, cast

from strictreply.contract._contract import Contract, by_name
from strictreply.contract._tool import Tool
from strictreply.coordination._topology.graph import Topology
from strictreply.values._errors import ContractError
from strictreply.values._limits import DEFAULT_LIMITS, Limits

Declared: TypeAlias = Iterable[object] | Mapping[str, object]
"""Tools as anything that declares one (see :meth:`Tool.of`), in a list, or in a mapping by the name they go by."""


class Toolsets:
    """The tools of the agents of one topology.

    What an agent's own ``tools`` says goes before what was declared for it. Compiled sets are kept, one an agent, and
    compiled anew when the agent declares other tools.
    """

    __slots__ = ("_declared", "_kept", "_limits", "_shared")

    def __init__(
        self, topology: Topology, tools: Declared | Mapping[str, Declared], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        """Compile what is declared: a list of tools for every agent, or a mapping of agents to their tools.

        Raises ContractError for what declares no tool, and for an agent that is none of the topology's.
        """
        self._limits = limits
        self._shared = self._contract(() if isinstance(tools, Mapping) else tools)
        own = cast("Mapping[str, Declared]", tools) if isinstance(tools, Mapping) else {}
        for agent in own:
            topology.neighbours(agent)
        self._declared = {agent: self._contract(declared) for agent, declared in own.items()}
        self._kept: dict[str, tuple[tuple[object, ...], Contract]] = {}

    def of(self, agent: str, own: Declared | None) -> Contract:
        """Give what calls of an agent's tools are held to, ``own`` being what it declares itself, None for nothing.

        Raises ContractError when that declares no tools.
        """
        if own is None:
            return self._declared.get(agent, self._shared)
        declared = tuple(own.items()) if isinstance(own, Mapping) else tuple(own)
        kept = self._kept.get(agent)
        if kept is not None and kept[0] == declared:
            return kept[1]
        contract = self._contract(own)
        self._kept[agent] = (declared, contract)
        return contract

    def _contract(self, declared: Declared) -> Contract:
        """Compile tools into a contract of native calls, several at once permitted."""
        return Contract(tools=compiled(declared).values(), parallel=True, limits=self._limits)


def compiled(declared: object) -> dict[str, Tool]:
    """Compile declarations of tools, by name; in a mapping each goes by its key.

    Raises ContractError for what declares no tool, and for two of the same name.
    """
    if isinstance(declared, Mapping):
        named = cast("Mapping[str, object]", declared)
        return by_name(_named(Tool.of(tool), name) for name, tool in named.items())
    if isinstance(declared, Iterable) and not isinstance(declared, str):
        return by_name(Tool.of(tool) for tool in declared)
    raise ContractError(f"tools must be a list of tools, or a mapping by name, not {type(declared).__name__}")


def _named(tool: Tool, name: str) -> Tool:
    """Give a tool under another name."""
    return tool if tool.name == name else replace(tool, name=name)
