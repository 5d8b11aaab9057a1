"""What one agent may do at one moment, and with which tools: facts of the topology, the branch and the declaration.

What a reply says is not read here. There is no way round these rules, and nothing in them depends on agents' names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import TypeAlias, cast

from strictreply.contract._complaints import Checked
from strictreply.contract._contract import Contract, by_name
from strictreply.contract._tool import Tool
from strictreply.coordination._action_shapes import SHAPES, ExtraKeys, Need, listed
from strictreply.coordination._actions import ActionType, Branch, BranchType, Origin, Permitted
from strictreply.coordination._coordination_codes import AgentReplyCode
from strictreply.coordination._topology import USER, Topology
from strictreply.values._errors import ContractError
from strictreply.values._issues import Issue, quote
from strictreply.values._json import JSON, JSONObject
from strictreply.values._limits import DEFAULT_LIMITS, Limits

_SYSTEM_ACTIONS = tuple(action for action, shape in SHAPES.items() if shape.systemic)
_SIMPLE = Branch()


def permitted_actions(
    topology: Topology,
    agent: str,
    *,
    branch: Branch | None = None,
    tools: Collection[str] = (),
    leave: frozenset[ActionType] = frozenset(),
    allowed_agents: Iterable[str] | None = None,
    origin: Origin = Origin.MODEL,
) -> Permitted:
    """Work out what ``agent`` may do with ``tools``, by their names, in ``branch`` (None for a simple one).

    ``leave`` names the actions that an application permits expressly. ``allowed_agents`` narrows whom the agent may
    hand over to; it never adds anybody. The system needs no permission for its own actions, and may always turn to the
    user (requirements M49, X8). A conversation is that of the branch's ``agents``, of any agent when it names none:
    nobody else ends it (requirement M44).

    Raises ContractError when the topology has no such agent.
    """
    targets = topology.allowed_targets(agent)
    if origin is Origin.SYSTEM:
        return Permitted(agent, _SYSTEM_ACTIONS, (*targets, USER))
    if allowed_agents is not None:
        named = {name.strip() for name in allowed_agents}
        targets = tuple(target for target in targets if target in named)
    branch = branch or _SIMPLE
    standing = {
        Need.NEXT_AGENT: targets,
        Need.FINISH: topology.may_finish(agent),
        Need.USER: topology.may_ask_user(agent),
        Need.TOOLS: tools,
        Need.CONVERSATION: branch.type is BranchType.CONVERSATION and (not branch.agents or agent in branch.agents),
        Need.PARALLEL: branch.type is BranchType.PARALLEL,
    }
    met = frozenset(need for need, is_met in standing.items() if is_met)
    return Permitted(agent, actions_of(met, leave), targets, tuple(tools))


@cache
def actions_of(met: frozenset[Need], leave: frozenset[ActionType] = frozenset()) -> tuple[ActionType, ...]:
    """Return the actions of an agent that has met these needs; there are few such sets: each is worked out once."""
    return tuple(
        action
        for action, shape in SHAPES.items()
        if all(need in met or (need is Need.LEAVE and action in leave) for need in shape.needs)
    )


def refusal_of(action: ActionType, allowed: Permitted) -> Issue:
    """Report an action that is not permitted, under the code of the first of its needs that no permitted one has."""
    met = {need for other in allowed.actions for need in SHAPES[other].needs}
    code = next((need.code for need in SHAPES[action].needs if need not in met), AgentReplyCode.ACTION_NOT_PERMITTED)
    names = allowed.agents if code is AgentReplyCode.TOPOLOGY_NOT_ALLOWED else allowed.actions
    return code.at("/next_action", names=listed(names), found=quote(action.value))


def action_named(name: str) -> ActionType:
    """Return an action by its name; ContractError lists those there are."""
    try:
        return ActionType(name)
    except ValueError:
        raise ContractError(f"{name!r} is no action; the actions are: {', '.join(ActionType)}") from None


def read_leave(names: Iterable[str]) -> frozenset[ActionType]:
    """Read the actions that an application permits expressly; ContractError for one that is the system's own."""
    leave = frozenset(map(action_named, names))
    for action in leave:
        if Need.SYSTEM in SHAPES[action].needs:
            raise ContractError(f"{action.value!r} is the system's own; no agent can be permitted it")
    return leave


ActionCheck: TypeAlias = Callable[[JSONObject, Permitted], Checked]
"""A user's own check of an action: given what it says and what is permitted, gives issues or raises ValueError."""

Checks: TypeAlias = Mapping[ActionType, tuple[ActionCheck, ...]]


@dataclass(frozen=True, slots=True)
class ActionTerms:
    """What an action is held to.

    ``tools`` are the core's terms of a tool call: several calls at once are permitted. ``extra`` says whether an action
    may have members beside its own (requirement X3). ``checks`` run last, on actions that are right so far. ``place``
    is where the conversation stands, as far as its state was given: instances of agents are told apart by it.
    """

    permitted: Permitted
    tools: Contract
    branch: Branch = _SIMPLE
    extra: ExtraKeys = "forbid"
    checks: Checks = field(default_factory=lambda: MappingProxyType({}))
    place: tuple[JSON, ...] = ()


Declared: TypeAlias = Iterable[object] | Mapping[str, object]
"""Tools as anything that declares one (see :meth:`Tool.of`), in a list, or in a mapping by the name they go by."""


class Toolsets:
    """The tools of the agents of one topology, a list for every agent or by the agent's name.

    Compiled sets are kept, one an agent, and compiled anew when the agent declares other tools. Raises ContractError
    for what declares no tool, and for an agent that is none of the topology's.
    """

    __slots__ = ("_declared", "_kept", "_limits", "_shared")

    def __init__(
        self, topology: Topology, tools: Declared | Mapping[str, Declared], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._limits = limits
        self._shared = self._contract(() if isinstance(tools, Mapping) else tools)
        own = cast("Mapping[str, Declared]", tools) if isinstance(tools, Mapping) else {}
        for agent in own:
            topology.neighbours(agent)
        self._declared = {agent: self._contract(declared) for agent, declared in own.items()}
        self._kept: dict[str, tuple[tuple[object, ...], Contract]] = {}

    def of(self, agent: str, own: Declared | None = None) -> Contract:
        """Return what calls of an agent's tools are held to; ``own``, what it declares itself, goes before the rest."""
        if own is None:
            return self._declared.get(agent, self._shared)
        declared = tuple(own.items()) if isinstance(own, Mapping) else tuple(own)
        kept = self._kept.get(agent)
        if kept is None or kept[0] != declared:
            self._kept[agent] = kept = (declared, self._contract(own))
        return kept[1]

    def _contract(self, declared: Declared) -> Contract:
        return Contract(tools=compiled(declared).values(), parallel=True, limits=self._limits)


def compiled(declared: object) -> dict[str, Tool]:
    """Compile declarations of tools, by name, in a mapping by key; ContractError for what is none, and for twins."""
    if isinstance(declared, Mapping):
        named = cast("Mapping[str, object]", declared)
        return by_name(replace(Tool.of(tool), name=name) for name, tool in named.items())
    if isinstance(declared, Iterable) and not isinstance(declared, str):
        return by_name(Tool.of(tool) for tool in declared)
    raise ContractError(f"tools must be a list of tools, or a mapping by name, not {type(declared).__name__}")
