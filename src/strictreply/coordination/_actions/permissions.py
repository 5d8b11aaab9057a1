"""What one agent may do at one moment: which actions, whom it may hand over to. What a reply says is not read here.

Permissions are facts of the topology, the branch and the declaration. There is no way round them, and nothing in them
depends on what agents are called.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import NamedTuple

from strictreply.coordination._actions.branches import Branch, BranchType
from strictreply.coordination._actions.kinds import ActionType, Origin, Permitted
from strictreply.coordination._actions.shapes import SHAPES, Need, listed
from strictreply.coordination._topology.graph import USER, Topology
from strictreply.values._errors import ContractError
from strictreply.values._issues import Code, Issue, quote

SYSTEM_ACTIONS = tuple(action for action, shape in SHAPES.items() if shape.systemic)


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
    """Work out what ``agent`` may do.

    ``tools`` names those it has. ``leave`` names the actions that an application permits expressly, as
    ``terminal_error`` and ``terminate_workflow`` need it. ``allowed_agents`` narrows whom it may hand over to; it never
    adds anybody. The system needs no permission for its own actions, and may always turn to the user (requirements
    M49, X8). A conversation is that of the branch's ``agents``, of any agent when it names none: nobody else ends it
    (requirement M44).

    Raises ContractError when the topology has no such agent.
    """
    targets = topology.allowed_targets(agent)
    if origin is Origin.SYSTEM:
        return Permitted(agent, SYSTEM_ACTIONS, (*targets, USER))
    if allowed_agents is not None:
        named = {name.strip() for name in allowed_agents}
        targets = tuple(target for target in targets if target in named)
    standing = Standing(
        next_agent=bool(targets),
        finish=topology.may_finish(agent),
        user=topology.may_ask_user(agent),
        tools=bool(tools),
        conversation=_talks(agent, branch),
        parallel=branch is not None and branch.type is BranchType.PARALLEL,
    )
    return Permitted(agent, actions_of(standing, leave), targets, tuple(tools))


def _talks(agent: str, branch: Branch | None) -> bool:
    """Tell whether an agent takes part in the conversation that a branch is."""
    if branch is None or branch.type is not BranchType.CONVERSATION:
        return False
    return not branch.agents or agent in branch.agents


class Standing(NamedTuple):
    """Which needs an agent meets, each by the name of the need."""

    next_agent: bool = False
    finish: bool = False
    user: bool = False
    tools: bool = False
    conversation: bool = False
    parallel: bool = False


@cache
def actions_of(standing: Standing, leave: frozenset[ActionType] = frozenset()) -> tuple[ActionType, ...]:
    """Give the actions of an agent of this standing; there are few, so that each is worked out once."""
    met = {Need[name.upper()] for name, is_met in standing._asdict().items() if is_met}
    return tuple(
        action
        for action, shape in SHAPES.items()
        if all(need in met or (need is Need.LEAVE and action in leave) for need in shape.needs)
    )


def refusal_of(action: ActionType, allowed: Permitted) -> Issue:
    """Report an action that is not permitted, under the code of the first of its needs that is not met.

    What the permitted actions need is met.
    """
    met = {need for other in allowed.actions for need in SHAPES[other].needs}
    code = next((need.code for need in SHAPES[action].needs if need not in met), Code.ACTION_NOT_PERMITTED)
    names = allowed.agents if code is Code.TOPOLOGY_NOT_ALLOWED else allowed.actions
    return Issue.of(code, "/next_action", names=listed(names), found=quote(action.value))


def leave_in(allowed: Permitted) -> frozenset[ActionType]:
    """Give the actions among the permitted ones that an application must have permitted expressly."""
    return frozenset(action for action in allowed.actions if Need.LEAVE in SHAPES[action].needs)


def read_leave(names: Iterable[ActionType | str]) -> frozenset[ActionType]:
    """Read the actions that an application permits expressly.

    Raises ContractError for what is no action, or one that only the system may ask for.
    """
    leave: set[ActionType] = set()
    for name in names:
        if name not in set(ActionType):
            raise ContractError(f"{name!r} is no action; the actions are: {', '.join(ActionType)}")
        action = ActionType(name)
        if Need.SYSTEM in SHAPES[action].needs:
            raise ContractError(f"{action.value!r} is the system's own; no agent can be permitted it")
        leave.add(action)
    return frozenset(leave)
