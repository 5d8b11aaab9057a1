"""How agents write their actions.

The formats, their registry, their processors, and the prompts that teach them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, cast

from strictreply.contract._channels import compact
from strictreply.coordination._actions import ActionType
from strictreply.coordination._permissions import (
    SHAPES,
    AgentContext,
    CoordinationContext,
    ExtraKeys,
    compiled,
    example_of,
)
from strictreply.coordination._processors import (
    ErrorMessageProcessor,
    ProcessorChain,
    ResponseProcessor,
    StructuredJSONProcessor,
    TextResponseProcessor,
    ToolCallProcessor,
)
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject


class BaseResponseFormat(ABC):
    """A way of writing actions (requirement M60).

    ``extra`` says whether an action may have members that its shape does not name (requirement X3).
    The ``actions`` that its methods take are those that are permitted, in order.
    """

    extra: ExtraKeys = "forbid"

    @abstractmethod
    def get_format_name(self) -> str:
        """Return the name that it is registered by."""

    @abstractmethod
    def build_format_instructions(
        self, actions: Sequence[ActionType], descriptions: Mapping[ActionType, str]
    ) -> str:
        """Return how a model is to write a reply, and which actions it may ask for."""

    @abstractmethod
    def build_action_descriptions(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> dict[ActionType, str]:
        """Return what each action does, and with whom."""

    @abstractmethod
    def get_examples(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> list[str]:
        """Return an example of each action but the parallel one.

        Each must be valid for this context.
        """

    @abstractmethod
    def get_parallel_invocation_examples(self, context: CoordinationContext) -> list[str]:
        """Return examples of handing over to several agents at once."""

    @abstractmethod
    def create_processor(self) -> ResponseProcessor:
        """Return the processor that reads replies in this format."""

    def reminder(self) -> str:
        """Return a sentence on how replies are written, for an agent whose last one was not."""
        name = self.get_format_name().upper()
        return f"Please reply in {name} only, nothing around it, as instructed."


class ActionFormat(BaseResponseFormat):
    """A format that differs from others only in how an action is spelt.

    All else comes from the table of actions.
    """

    name: str

    def __init__(self, extra: ExtraKeys = "forbid") -> None:
        self.extra: ExtraKeys = extra

    @abstractmethod
    def spell(self, action: JSONObject) -> str:
        """Write an action on one line."""

    @abstractmethod
    def rule(self) -> str:
        """Return a sentence or two on how every reply is written."""

    def get_format_name(self) -> str:
        """Return its ``name``."""
        return self.name

    def reminder(self) -> str:
        """Return the rule again."""
        return self.rule()

    def build_format_instructions(
        self, actions: Sequence[ActionType], descriptions: Mapping[ActionType, str]
    ) -> str:
        """State the rule, then list the actions."""
        lines = [f"- {action.value}: {descriptions[action]}" for action in actions]
        return "\n".join([self.rule(), "The action is one of:", *lines])

    def build_action_descriptions(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> dict[ActionType, str]:
        """Return the words of the table of actions."""
        allowed = context.permitted()
        return {action: SHAPES[action].described(allowed) for action in actions}

    def get_examples(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> list[str]:
        """Return the examples of the table of actions."""
        single = (one for one in actions if one is not ActionType.PARALLEL_INVOKE)
        return self._written(single, context)

    def get_parallel_invocation_examples(self, context: CoordinationContext) -> list[str]:
        """Return the example of the table of actions."""
        return self._written([ActionType.PARALLEL_INVOKE], context)

    def _written(self, actions: Iterable[ActionType], context: CoordinationContext) -> list[str]:
        allowed = context.permitted()
        examples = (example_of(action, allowed, context.tools) for action in actions)
        return [self.spell(example) for example in examples if example is not None]


class JSONResponseFormat(ActionFormat):
    """One JSON object with ``next_action`` and the members of that action."""

    name = "json"

    def spell(self, action: JSONObject) -> str:
        """Write an action as compact JSON."""
        return compact(action)

    def rule(self) -> str:
        """Return how every reply is written."""
        return (
            "Reply with exactly one JSON object and nothing else: "
            "no prose, no code fence, no other members. "
            'It has the member "next_action", the members of that action, '
            'and if you like "thought", a text.'
        )

    def reminder(self) -> str:
        """Return which members there are (requirement M65)."""
        return (
            "Please reply in JSON only, nothing around it: next_action names the action, "
            "action_input or the action's other members hold its details."
        )

    def create_processor(self) -> ResponseProcessor:
        """Return the processor that reads JSON objects with ``next_action``."""
        return StructuredJSONProcessor()


class _Registry:
    """Formats by name; the default is JSON until another is set (requirement M61)."""

    classes: ClassVar[dict[str, type[BaseResponseFormat]]] = {"json": JSONResponseFormat}
    default: ClassVar[str] = "json"


def register_format(
    name: str, format_class: type[BaseResponseFormat], *, replace: bool = False
) -> None:
    """Register a format for all.

    Raises ContractError for a blank name, for a name that is taken, without ``replace``, and for
    what is not a format.
    """
    if not name.strip():
        raise ContractError("a format's name must not be blank")

    known = cast("object", format_class)
    if not (isinstance(known, type) and issubclass(known, BaseResponseFormat)):
        raise ContractError(f"the format {name!r} must be a subclass of BaseResponseFormat")
    if name in _Registry.classes and not replace:
        raise ContractError(f"a format {name!r} is registered; pass replace=True to replace it")

    _Registry.classes = {**_Registry.classes, name: format_class}


def get_format(name: str | None = None) -> BaseResponseFormat:
    """Return a new format by its name, None for the default.

    Raises ContractError (a ValueError), which lists the registered ones, for any other name.
    """
    return _class_of(_Registry.default if name is None else name)()


def _class_of(name: str) -> type[BaseResponseFormat]:
    if name not in _Registry.classes:
        known = ", ".join(_Registry.classes)
        raise ContractError(f"there is no format {name!r}; registered are: {known}")

    return _Registry.classes[name]


def list_formats() -> list[str]:
    """Return the names of the registered formats, in the order of their registration."""
    return list(_Registry.classes)


def set_default_format(name: str) -> None:
    """Make a registered format the default of all.

    Raises ContractError (a ValueError) for any other name.
    """
    _class_of(name)
    _Registry.default = name


def is_format_registered(name: str) -> bool:
    """Return whether a format of this name is registered."""
    return name in _Registry.classes


class _DefaultFormat(str):
    """The published default of a parameter.

    It is equal to ``json``, and can be told apart from a name that a caller wrote.
    """

    __slots__ = ()


DEFAULT_FORMAT: Final = _DefaultFormat(JSONResponseFormat.name)


def format_of(given: str | BaseResponseFormat | None) -> BaseResponseFormat:
    """Return the format that is given, as such or by its registered name.

    None and DEFAULT_FORMAT stand for the default that is set.
    """
    if isinstance(given, BaseResponseFormat):
        return given
    return get_format(None if isinstance(given, _DefaultFormat) else given)


class SystemPromptBuilder:
    """Writes system prompts with valid examples, in a format (M62, M64).

    The format is given as such or by its name; an unknown name raises ContractError.
    """

    def __init__(self, response_format: str | BaseResponseFormat = DEFAULT_FORMAT) -> None:
        self._format = format_of(response_format)

    def build(
        self,
        agent_context: AgentContext,
        coordination_context: CoordinationContext,
        environmental: Mapping[str, object] | None = None,
    ) -> str:
        """Return the prompt of an agent, with facts such as the date in ``environmental``.

        Raises ContractError for tools that are declared wrongly.
        """
        agent = agent_context
        context = coordination_context
        declared = agent.tools if agent.tools_schema is None else agent.tools_schema
        if declared is not None:
            context = replace(context, tools={**context.tools, **compiled(declared)})

        actions = context.permitted().actions
        identity = (
            f"You are {agent.name}.",
            agent.goal and f"Your goal: {agent.goal}",
            agent.instruction,
        )
        facts = [f"{name}: {value}" for name, value in (environmental or {}).items()]
        sections = ["\n".join(filter(None, identity)), "\n".join(facts)]

        if agent.input_schema:
            sections.append(f"Your input fits this JSON Schema: {compact(agent.input_schema)}")

        if tools := context.tools.values():
            lines = ["Your tools:"]
            for tool in tools:
                arguments = compact(tool.parameters.shown)
                lines.append(f"- {tool.name}: {tool.description} Arguments: {arguments}")
            sections.append("\n".join(lines))

        if actions:
            sections.append(self._replying(actions, context))

        if agent.output_schema and ActionType.FINAL_RESPONSE in actions:
            schema = compact(agent.output_schema)
            sections.append(f"The content of a final response fits this JSON Schema: {schema}")

        # without the empty ones: there are no facts, or a format has no words on replying
        return "\n\n".join(filter(None, sections))

    def _replying(self, actions: tuple[ActionType, ...], context: CoordinationContext) -> str:
        examples = [*self._format.get_examples(actions, context)]
        if ActionType.PARALLEL_INVOKE in actions:
            examples += self._format.get_parallel_invocation_examples(context)

        descriptions = self._format.build_action_descriptions(actions, context)
        instructions = self._format.build_format_instructions(actions, descriptions)
        if not examples:
            return instructions
        return "\n".join([instructions, "Examples:", *examples])


__all__ = [
    "ActionFormat",
    "AgentContext",
    "BaseResponseFormat",
    "CoordinationContext",
    "ErrorMessageProcessor",
    "JSONResponseFormat",
    "ProcessorChain",
    "ResponseProcessor",
    "StructuredJSONProcessor",
    "SystemPromptBuilder",
    "TextResponseProcessor",
    "ToolCallProcessor",
    "get_format",
    "is_format_registered",
    "list_formats",
    "register_format",
    "set_default_format",
]
