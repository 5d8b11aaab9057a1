"""Everything an agent's action is held to, compiled: what is permitted, its tools, its branch, the user's checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from strictreply.contract._complaints import Checked
from strictreply.contract._contract import Contract
from strictreply.coordination._actions.branches import Branch
from strictreply.coordination._actions.kinds import ActionType, Permitted
from strictreply.coordination._actions.shapes import ExtraKeys
from strictreply.values._json import JSON, JSONObject

ActionCheck: TypeAlias = Callable[[JSONObject, Permitted], Checked]
"""A user's own check of an action: given what it says and what is permitted, gives issues or raises ValueError."""

Checks: TypeAlias = Mapping[ActionType, tuple[ActionCheck, ...]]


@dataclass(frozen=True, slots=True)
class ActionTerms:
    """What an action is held to.

    ``tools`` is the contract of a tool call: several calls at once are permitted. ``extra`` says whether an action
    may have members beside its own (requirement X3). ``checks`` run last, on actions that are right so far. ``place``
    is where the conversation stands, as far as its state was given: instances of agents are told apart by it.
    """

    permitted: Permitted
    tools: Contract
    branch: Branch = field(default_factory=Branch)
    extra: ExtraKeys = "forbid"
    checks: Checks = field(default_factory=lambda: MappingProxyType({}))
    place: tuple[JSON, ...] = ()
