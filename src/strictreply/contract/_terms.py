"""The terms of a contract, compiled: what the rooms that read, judge and ask all look things up in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from strictreply.contract._answer import FINAL_ANSWER, Answer
from strictreply.contract._tool import Tool
from strictreply.values._errors import ContractError
from strictreply.values._json import AnswerStyle, CallsAsText, Channel, Extra, Extraction, Formats
from strictreply.values._limits import DEFAULT_LIMITS, Limits
from strictreply.values._replies import AssistantReply, DirectAnswer, ToolCall, calls_of

UNION_NAMES = frozenset({"tool", "args", "answer"})
MAX_LISTED_NAMES = 20
CHOICES = frozenset({"auto", "required", "none"})


@dataclass(frozen=True)
class Terms:
    """Everything a reply is held to.

    ``tools`` are by name, in the order they were declared. ``choice`` is ``auto``, ``required``, ``none`` or the name
    of the one tool that must be called, as ``tool_choice`` says it. ``extraction`` names the leniencies in order.
    ``extra`` and ``formats`` are what the contract says of tools and answers that a request brings along, None when it
    says nothing. ``calls_as_text`` says whether a text that is a call as a whole may be an answer,
    ``ids_may_repeat`` whether a call may have the id of an earlier one of its conversation: whoever asks numbers them.
    """

    tools: Mapping[str, Tool]
    answer: Answer
    channel: Channel = "native"
    choice: str = "auto"
    parallel: bool = False
    answer_style: AnswerStyle = "union"
    extraction: tuple[Extraction, ...] = ("strict",)
    limits: Limits = DEFAULT_LIMITS
    extra: Extra | None = None
    formats: Formats | None = None
    calls_as_text: CallsAsText = "refuse"
    ids_may_repeat: bool = False

    @cached_property
    def names(self) -> frozenset[str]:
        """Every member name that the contract speaks of: only these may stand in a path."""
        schemas = [tool.parameters for tool in self.tools.values()]
        schemas += [self.answer.schema] if self.answer.schema is not None else []
        return UNION_NAMES.union(*(schema.names for schema in schemas))

    @cached_property
    def callable_names(self) -> list[str]:
        """The names that a call may have: the tools', and ``final_answer`` where that is how to answer."""
        return [*self.tools, FINAL_ANSWER] if self.answer_style == "tool" else list(self.tools)

    @cached_property
    def tool_list(self) -> str:
        """The tools' names as text, capped: our words, fit for a correction (requirement T34)."""
        names = self.callable_names
        more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
        return ", ".join(names[:MAX_LISTED_NAMES]) + more

    def calls_in(self, reply: AssistantReply) -> tuple[ToolCall, ...]:
        """Give the tool calls of a reply in order, those inside an answer that holds calls, too."""
        return self.answer.calls_in(reply.answer) if isinstance(reply, DirectAnswer) else calls_of(reply)

    def with_tools(self, tools: Iterable[Tool]) -> Terms:
        """Hold replies to other tools."""
        return replace(self, tools=by_name(tools))

    def with_choice(self, choice: str) -> Terms:
        """Demand what ``tool_choice`` demands; ContractError when it names a tool that is not declared."""
        if choice not in CHOICES and choice not in self.callable_names:
            message = f"tool_choice names {choice!r}, which is not among the tools: {self.tool_list or 'none'}"
            raise ContractError(message)
        if choice == "required" and not self.tools and self.answer_style == "union":
            message = "tool_choice is 'required' but no tools are declared"
            raise ContractError(message)
        return replace(self, choice=choice)

    def only(self, name: str) -> Terms:
        """Narrow to one tool that must be called: the terms of a scoped re-ask."""
        return replace(self, tools={name: self.tools[name]}, choice=name, parallel=False)


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Index tools by name; ContractError when two share one, or one is named like a choice between tools."""
    index: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in CHOICES:
            message = f"{tool.name!r} is a word of tool_choice; rename the tool with Tool.from_…(name=…)"
            raise ContractError(message)
        if tool.name in index:
            message = f"two tools are named {tool.name!r}; rename one with Tool.from_…(name=…)"
            raise ContractError(message)
        index[tool.name] = tool
    return index
