"""What a prompt is made of: the agent, and what the coordination permits it. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strictreply.contract._tool import Tool
from strictreply.coordination._actions.kinds import ActionType, Permitted
from strictreply.coordination._actions.permissions import Standing, actions_of
from strictreply.coordination._actions.terms import ActionTerms
from strictreply.values._json import JSONObject


@dataclass(frozen=True, slots=True)
class AgentContext:
    """An agent as its prompt presents it (requirement M63).

    ``tools`` are its tools by name, as anything that declares one; ``tools_schema`` the same as OpenAI tool
    definitions, and what is told of them when both are given. ``input_schema`` and ``output_schema`` are JSON Schemas
    of what it is given and of its answer. ``memory_retention`` is carried for the application.
    """

    name: str
    goal: str
    instruction: str
    tools: dict[str, object] | None = None
    tools_schema: list[JSONObject] | None = None
    input_schema: JSONObject | None = None
    output_schema: JSONObject | None = None
    memory_retention: str = "session"


@dataclass(frozen=True, slots=True)
class CoordinationContext:
    """What the coordination permits an agent (requirement M63).

    ``actions`` None stands for those that follow from the other fields; ``tools`` are what it may call.
    """

    next_agents: list[str] = field(default_factory=list[str])
    can_return_final_response: bool = False
    actions: tuple[ActionType, ...] | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])

    @classmethod
    def of(cls, terms: ActionTerms) -> CoordinationContext:
        """Say exactly what replies are held to."""
        allowed = terms.permitted
        finishes = ActionType.FINAL_RESPONSE in allowed.actions
        return cls(list(allowed.agents), finishes, allowed.actions, terms.tools.by_name)

    def permitted(self, agent: str = "") -> Permitted:
        """Give what is permitted, for an agent of this name."""
        standing = Standing(bool(self.next_agents), self.can_return_final_response, tools=bool(self.tools))
        actions = actions_of(standing) if self.actions is None else self.actions
        return Permitted(agent, actions, tuple(self.next_agents), tuple(self.tools))
