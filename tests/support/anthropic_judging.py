"""A request to the Messages API as its rules judge it, and what a rule is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from support.anthropic_turns import Block, History, JSONObject, Turn, turns_of


@dataclass(frozen=True, slots=True)
class Model:
    """What a model takes; as it stands, a new model with preserved thinking."""

    prefill: bool = False
    """Whether the conversation may end with the beginning of the answer."""

    forced_choice: bool = True
    """Whether ``tool_choice`` may be ``any`` or ``tool``."""

    system_turns: bool = False
    """Whether a message may have the role ``system``."""

    pairs_ids: bool = True
    """Whether results are matched with calls by id, not only by number."""

    binds_thinking: bool = True
    """Whether thinking is bound to what stands before it."""

    thinks: bool = True
    """Whether it thinks when the request does not say so."""


def model_of(name: str) -> Model:
    """Return what a model of Claude takes, by its name or a path that holds it."""
    found = re.search(
        r"claude-(?:(fable|mythos|opus|sonnet|haiku)-)?(\d+)(?:-(\d{1,2})(?!\d))?", name
    )
    family, major, minor = found.groups() if found else (None, "0", None)
    version = (int(major), int(minor or 0))
    is_new_family = family in {"fable", "mythos"}
    binds = version >= ((5, 1) if is_new_family else (5, 5))

    return Model(
        prefill=version < (4, 6),
        forced_choice=not is_new_family,
        system_turns=version >= (4, 8) and (family, version) != ("sonnet", (5, 0)),
        pairs_ids=version != (3, 0),  # ant-855f6b7530, ant-79f1d93653: claude-3-opus, other ids
        binds_thinking=binds,
        thinks=is_new_family or binds,
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is answered 400."""

    rule: str
    message: str
    type: str = "invalid_request_error"

    @property
    def body(self) -> JSONObject:
        """The body of the answer."""
        return {"type": "error", "error": {"type": self.type, "message": self.message}}


@dataclass(frozen=True)
class Asked:
    """A request to judge."""

    body: JSONObject
    history: History | None
    """What the server sent before, None when nothing is known of it."""

    model: Model

    @cached_property
    def messages(self) -> list[JSONObject]:
        """The conversation."""
        return list(self.body["messages"])

    @cached_property
    def turns(self) -> list[Turn]:
        """The conversation, consecutive messages of a role merged."""
        return turns_of(self.messages)

    @cached_property
    def blocks(self) -> list[Block]:
        """All content blocks."""
        return [block for turn in self.turns for block in turn.blocks]

    @property
    def thinking(self) -> str | None:
        """The type of thinking that is asked for."""
        thinking = self.body.get("thinking")
        return thinking.get("type") if isinstance(thinking, dict) else None

    @property
    def tools(self) -> list[tuple[str, JSONObject]]:
        """The tools that a client declares with a schema, and where each stands."""
        declared = enumerate(self.body.get("tools") or ())
        kinds = {None, "custom"}
        return [(f"tools.{at}.custom", tool) for at, tool in declared if tool.get("type") in kinds]

    @property
    def choice(self) -> JSONObject:
        """The choice of tools, empty when it is left to the model."""
        choice = self.body.get("tool_choice")
        return choice if isinstance(choice, dict) else {}

    @property
    def is_forced(self) -> bool:
        """Whether a tool has to be called."""
        return self.choice.get("type") in {"any", "tool"}


Check = Callable[[Asked], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One reason to answer 400."""

    name: str
    source: str
    check: Check


@dataclass(slots=True)
class Rules:
    """Rules by name, in the order in which they are looked at."""

    named: dict[str, Rule] = field(default_factory=dict)

    def add(self, name: str, source: str) -> Callable[[Check], Check]:
        """Return a decorator that makes a rule of a check."""

        def adding(check: Check) -> Check:
            self.named[name] = Rule(name, source, check)
            return check

        return adding
