"""The system prompt of an agent: who it is, what it may do, and how its replies are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from strictreply.contract._describing import compact
from strictreply.contract._tool import Tool
from strictreply.coordination._actions.kinds import ActionType
from strictreply.coordination._actions.toolsets import compiled
from strictreply.coordination.formats._contexts import AgentContext, CoordinationContext
from strictreply.coordination.formats._interface import BaseResponseFormat
from strictreply.coordination.formats._registry import DEFAULT_FORMAT, format_of
from strictreply.values._json import JSON


class SystemPromptBuilder:
    """Writes system prompts in one format; every example in them is valid in that format (requirements M62, M64)."""

    def __init__(self, response_format: str | BaseResponseFormat = DEFAULT_FORMAT) -> None:
        """Take a format or the name of a registered one; the default is ``json`` until another is set.

        ContractError (a ValueError) lists the formats there are.
        """
        self._format = format_of(response_format)

    def build(
        self,
        agent_context: AgentContext,
        coordination_context: CoordinationContext,
        environmental: Mapping[str, object] | None = None,
    ) -> str:
        """Write the prompt of an agent.

        Only what ``coordination_context`` permits is told of. ``environmental`` are facts such as the date, told as
        they are. Raises ContractError when the agent's tools are declared wrongly.
        """
        context = _with_tools(coordination_context, agent_context)
        sections = (
            _identity(agent_context),
            _facts(environmental or {}),
            _schema("What you are given fits this JSON Schema", agent_context.input_schema),
            _tools(context.tools),
            self._replying(context),
            _schema("The content of a final response fits this JSON Schema", _output(agent_context, context)),
        )
        return "\n\n".join(section for section in sections if section)

    def _replying(self, context: CoordinationContext) -> str:
        """Tell how to reply, and show it; an agent that may do nothing is told nothing."""
        actions = context.permitted().actions
        if not actions:
            return ""
        descriptions = self._format.build_action_descriptions(actions, context)
        examples = self._format.get_examples(actions, context)
        if ActionType.PARALLEL_INVOKE in actions:
            examples = [*examples, *self._format.get_parallel_invocation_examples(context)]
        told = [self._format.build_format_instructions(actions, descriptions)]
        return "\n".join([*told, "Examples:", *examples] if examples else told)


def _with_tools(context: CoordinationContext, agent: AgentContext) -> CoordinationContext:
    """Add the agent's own tools to what is permitted."""
    declared = agent.tools if agent.tools_schema is None else agent.tools_schema
    return context if declared is None else replace(context, tools={**context.tools, **compiled(declared)})


def _identity(agent: AgentContext) -> str:
    """Say who the agent is."""
    lines = (f"You are {agent.name}.", f"Your goal: {agent.goal}" if agent.goal else "", agent.instruction)
    return "\n".join(line for line in lines if line)


def _facts(environmental: Mapping[str, object]) -> str:
    """List the facts of the environment."""
    return "\n".join(f"{name}: {value}" for name, value in environmental.items())


def _tools(tools: Mapping[str, Tool]) -> str:
    """List the tools with their arguments."""
    lines = [
        f"- {tool.name}: {tool.description} Arguments: {compact(tool.parameters.source)}" for tool in tools.values()
    ]
    return "\n".join(["Your tools:", *lines]) if lines else ""


def _schema(words: str, schema: JSON) -> str:
    """Show a schema."""
    return f"{words}: {compact(schema)}" if schema else ""


def _output(agent: AgentContext, context: CoordinationContext) -> JSON:
    """Give the schema of the answer, where there may be one."""
    return agent.output_schema if ActionType.FINAL_RESPONSE in context.permitted().actions else None
