"""The formats in which agents write actions, with the names of the published Validation API.

The module has the formats, their registry, the processors that read replies, and the prompts that
describe a format to an agent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias, cast

from strictreply import Contract, ContractError, Invalid, Issue, Tool
from strictreply.coordination._api_replies import (
    NOT_AS_ASKED,
    UNREADABLE,
    ReplyView,
    View,
    has_calls,
    is_error,
    plain_calls,
    plain_issues,
    read_error_message,
    read_reply,
)
from strictreply.coordination.actions import (
    SHAPES,
    ActionType,
    AgentReplyCode,
    ExtraKeys,
    Need,
    Origin,
    Permitted,
    Source,
    actions_of,
    example_of,
)
from strictreply.coordination.topology import ActionTerms, compiled
from strictreply.core import DEFAULT_LIMITS, JSONObject
from strictreply.core.text import compact, plain

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


@dataclass(frozen=True, slots=True)
class AgentContext:
    """An agent as its prompt describes it."""

    name: str
    """Name of the agent."""
    goal: str
    """What the agent is for."""
    instruction: str
    """How the agent should work."""
    tools: dict[str, object] | None = None
    """Its tools by name, in any form that declares a tool; None for no tools."""
    tools_schema: list[JSONObject] | None = None
    """OpenAI tool definitions instead of ``tools``; None to use ``tools``."""
    input_schema: JSONObject | None = None
    """JSON Schema of the agent's input; None for any input."""
    output_schema: JSONObject | None = None
    """JSON Schema of the agent's answer; None for any answer."""
    memory_retention: str = "session"
    """How long the application keeps the agent's memory; strictreply does not use it."""


@dataclass(frozen=True, slots=True)
class CoordinationContext:
    """What an agent is permitted to do.

    ``actions`` are the permitted actions; None derives them from the other fields.
    """

    next_agents: list[str] = field(default_factory=list[str])
    """The agents that it may hand over to."""
    can_return_final_response: bool = False
    """Whether it may give the final response."""
    actions: tuple[ActionType, ...] | None = None
    """The permitted actions; None for those that follow from the other fields."""
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """The tools that it may call, by name."""

    @classmethod
    def of(cls, terms: ActionTerms) -> CoordinationContext:
        """Return the permissions that replies are judged by."""
        return cls.of_permitted(terms.permitted, terms.tools.by_name)

    @classmethod
    def of_permitted(cls, allowed: Permitted, tools: Mapping[str, Tool]) -> CoordinationContext:
        """Return a context with these permissions; examples may call ``tools``."""
        may_finish = ActionType.FINAL_RESPONSE in allowed.actions
        return cls(list(allowed.agents), may_finish, allowed.actions, tools)

    def permitted(self, agent: str = "") -> Permitted:
        """Return the permissions of an agent with this name."""
        agents = tuple(self.next_agents)
        standing = {
            Need.NEXT_AGENT: agents,
            Need.FINISH: self.can_return_final_response,
            Need.TOOLS: self.tools,
        }
        met = frozenset(need for need, is_met in standing.items() if is_met)
        actions = actions_of(met) if self.actions is None else self.actions
        return Permitted(agent, actions, agents, tuple(self.tools))


_NO_TOOLS: Final = Contract()

_NOT_PROSE = ("{", "[", "`", "<", '"')


class ResponseProcessor(ABC):
    """Reads replies of one form; it gets the views of a reply that ``views`` names, in order.

    ``format_name`` is the format that it reads; empty if agents cannot be told to write it.
    ``origin`` says who chooses the actions that it reads.
    """

    views: ClassVar[tuple[View, ...]] = ("reply", "text", "value")
    """The sides of a reply that it is shown, in order."""
    origin: ClassVar[Origin] = Origin.MODEL
    """Who asks for the actions it reads."""
    format_name: str = ""
    """The format it reads; empty if no agent can be required to write it."""

    @abstractmethod
    def can_process(self, response: Any) -> bool:
        """Return whether this processor reads a reply, given one view of it."""

    @abstractmethod
    def process(self, response: Any) -> JSONObject | Invalid | None:
        """Return the action of a reply; None leaves it to the next processor.

        Invalid reports its faults.
        """

    @abstractmethod
    def priority(self) -> int:
        """Return the rank.

        The highest comes first; of equal ones the one that was registered first.
        """


class _RankedProcessor(ResponseProcessor):
    """A built-in processor, whose rank (requirement X2) is a parameter."""

    rank: ClassVar[int]

    def __init__(self, priority: int | None = None) -> None:
        self._priority = self.rank if priority is None else priority

    def priority(self) -> int:
        """Return the rank."""
        return self._priority


class ErrorMessageProcessor(_RankedProcessor):
    """Reads an error that the application reports with the role ``error``.

    Its action comes from the system, not from a model.
    """

    rank = 100
    """The default priority."""
    views: ClassVar[tuple[View, ...]] = ("reply",)
    """The sides of a reply that it is shown, in order."""
    origin = Origin.SYSTEM
    """Who asks for the actions it reads."""

    def can_process(self, response: object) -> bool:
        """Return whether a message reports an error."""
        return is_error(response)

    def process(self, response: object) -> JSONObject | Invalid | None:
        """Return the system's action for this class of error, with its details."""
        error = read_error_message(response)
        if isinstance(error, Invalid):
            return error

        known = {"classification": error.classification.value, "message": error.message}
        return {"next_action": error.action.value, "error_details": error.details | known}


class ToolCallProcessor(_RankedProcessor):
    """Reads native tool calls, at most ``max_calls`` of them."""

    rank = 90
    """The default priority."""
    views: ClassVar[tuple[View, ...]] = ("reply",)
    """The sides of a reply that it is shown, in order."""

    def __init__(
        self, priority: int | None = None, *, max_calls: int = DEFAULT_LIMITS.calls
    ) -> None:
        super().__init__(priority)
        self._max_calls = max_calls

    def can_process(self, response: object) -> bool:
        """Return whether a message has calls; an empty list does not count."""
        return has_calls(response)

    def process(self, response: object) -> JSONObject | Invalid | None:
        """Return the calls without additional members of an SDK or a server."""
        calls = plain_calls(response, self._max_calls)
        if isinstance(calls, Invalid):
            return calls
        return {"next_action": ActionType.CALL_TOOL.value, "tool_calls": calls}


class StructuredJSONProcessor(_RankedProcessor):
    """Reads a JSON object with ``next_action``."""

    rank = 80
    """The default priority."""
    views: ClassVar[tuple[View, ...]] = ("value",)
    """The sides of a reply that it is shown, in order."""
    format_name = "json"
    """The format it reads."""

    def can_process(self, response: object) -> bool:
        """Return whether an object names an action."""
        return isinstance(response, dict) and "next_action" in response

    def process(self, response: object) -> JSONObject | Invalid | None:
        """Return the object unchanged."""
        return cast("JSONObject", response)


class TextResponseProcessor(_RankedProcessor):
    """Reads prose as the final response, but not JSON, a code fence or a tag.

    You have to register it yourself.
    """

    rank = 10
    """The default priority."""
    views: ClassVar[tuple[View, ...]] = ("text",)
    """The sides of a reply that it is shown, in order."""
    format_name = "text"
    """The format it reads."""

    def can_process(self, response: object) -> bool:
        """Return whether a text is prose, and not a malformed action."""
        start = response.lstrip() if isinstance(response, str) else ""
        return bool(start) and not start.startswith(_NOT_PROSE) and "next_action" not in start

    def process(self, response: object) -> JSONObject | Invalid | None:
        """Return the text as the content of a final response."""
        return {"next_action": ActionType.FINAL_RESPONSE.value, "content": response}


# An action that is not judged yet, who chose it, and how it was read.
Candidate: TypeAlias = tuple[JSONObject, Origin, Source]


class ProcessorChain:
    """Processors in the order in which they read a reply: by priority, then registration.

    ``processors`` None means the ones for errors, native calls and JSON. Raises ContractError for
    an object that is not a processor. A chain reads actions; it does not judge them.
    """

    __slots__ = ("processors",)

    def __init__(self, processors: Iterable[ResponseProcessor] | None = None) -> None:
        published = (ErrorMessageProcessor(), ToolCallProcessor(), StructuredJSONProcessor())
        given = published if processors is None else tuple(processors)
        for processor in given:
            if not isinstance(cast("object", processor), ResponseProcessor):
                raise ContractError(
                    f"a processor must be a ResponseProcessor, not {type(processor).__name__}"
                )

        ordered = sorted(given, key=lambda processor: -processor.priority())
        self.processors: tuple[ResponseProcessor, ...] = tuple(ordered)
        """The processors, in the order in which they are asked."""

    async def process(self, response: object) -> JSONObject | None:
        """Return the action of a raw reply, without judging it.

        Return None if no action can be read; nothing is raised.
        """
        found = self.candidate(lambda: read_reply(response, ("strict",), _NO_TOOLS))
        return None if isinstance(found, Invalid) else found[0]

    def candidate(self, read: Callable[[], ReplyView | Invalid]) -> Candidate | Invalid:
        """Return the action of the first processor that reads the reply, as plain JSON.

        Return Invalid with the faults if none does.
        """
        try:
            view = read()
            return view if isinstance(view, Invalid) else self._first(view)
        except Exception:  # noqa: BLE001
            # reading an object runs its code, which may raise anything (M4)
            return Invalid((UNREADABLE,))

    def _first(self, view: ReplyView) -> Candidate | Invalid:
        failures: list[Issue] = []
        refusals: list[Issue] = []

        for processor in self.processors:
            outcome = _asked(processor, view)
            if isinstance(outcome, dict):
                source = Source(processor.format_name, tuple(failures), view.lenient)
                return outcome, processor.origin, source

            if isinstance(outcome, Issue):
                failures.append(outcome)
            elif outcome is not None:
                refusals.extend(outcome.issues)

        if not refusals:
            refusals.extend(self._unread(view))

        return Invalid((*failures, *refusals), view.lenient)

    def _unread(self, view: ReplyView) -> tuple[Issue, ...]:
        """Return why no processor read a reply.

        Faults of JSON are reported only if actions are written in JSON.
        """
        in_json = any(isinstance(one, StructuredJSONProcessor) for one in self.processors)
        reads_values = any("value" in one.views for one in self.processors if one.format_name)
        if in_json or (reads_values and view.value is None):
            return view.issues

        return (NOT_AS_ASKED,)


def _asked(processor: ResponseProcessor, view: ReplyView) -> JSONObject | Invalid | Issue | None:
    """Return the action that a processor reads, or why it cannot.

    An Issue is a failure of the processor itself. None means that it does not read this reply.
    """
    worst: Invalid | Issue | None = None
    for side in processor.views:
        response: object = getattr(view, side)
        if response is None:
            continue

        try:
            if not processor.can_process(response):
                continue
            outcome = cast("object", processor.process(response))
        except Exception:  # noqa: BLE001 - it must not end the judging of a reply
            worst = _failure(processor)
            continue

        if isinstance(outcome, dict):
            action = cast("JSONObject", outcome)
            if view.decoded(action):
                return action

            if issues := plain_issues(action, view.limits):  # faults for the strict reader
                return Invalid(issues)
            return cast("JSONObject", plain(action))  # a copy, because the action may change later

        if outcome is not None:
            worst = outcome if isinstance(outcome, Invalid) else _failure(processor)

    return worst


def _failure(processor: ResponseProcessor) -> Issue:
    return AgentReplyCode.FORMAT_PROCESSOR_FAILED.at("", name=type(processor).__name__)


class BaseResponseFormat(ABC):
    """A format of actions.

    ``extra`` says whether an action may have unknown members. The ``actions`` that
    its methods take are the permitted ones, in order.
    """

    extra: ExtraKeys = "forbid"
    """Whether an action may have members that its shape does not name."""

    @abstractmethod
    def get_format_name(self) -> str:
        """Return the name under which it is registered."""

    @abstractmethod
    def build_format_instructions(
        self, actions: Sequence[ActionType], descriptions: Mapping[ActionType, str]
    ) -> str:
        """Return how a model must write a reply, and which actions it may choose."""

    @abstractmethod
    def build_action_descriptions(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> dict[ActionType, str]:
        """Return what each action does, and with whom."""

    @abstractmethod
    def get_examples(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> list[str]:
        """Return an example of each action except ``parallel_invoke``.

        Each must be valid in this context.
        """

    @abstractmethod
    def get_parallel_invocation_examples(self, context: CoordinationContext) -> list[str]:
        """Return examples of ``parallel_invoke``."""

    @abstractmethod
    def create_processor(self) -> ResponseProcessor:
        """Return the processor that reads replies in this format."""

    def reminder(self) -> str:
        """Return a reminder of the format, for an agent whose last reply did not follow it."""
        name = self.get_format_name().upper()
        return f"Please reply in {name} only, nothing around it, as instructed."


class ActionFormat(BaseResponseFormat):
    """A base for formats that differ only in how they write an action.

    Everything else comes from the table of actions.
    """

    name: str
    """The name under which the format is registered."""

    def __init__(self, extra: ExtraKeys = "forbid") -> None:
        self.extra: ExtraKeys = extra
        """Whether an action may have members that its shape does not name."""

    @abstractmethod
    def spell(self, action: JSONObject) -> str:
        """Write an action on one line."""

    @abstractmethod
    def rule(self) -> str:
        """Return the rule for every reply, in one or two sentences."""

    def get_format_name(self) -> str:
        """Return ``name``."""
        return self.name

    def reminder(self) -> str:
        """Return the rule again."""
        return self.rule()

    def build_format_instructions(
        self, actions: Sequence[ActionType], descriptions: Mapping[ActionType, str]
    ) -> str:
        """Return the rule, and the list of actions."""
        lines = [f"- {action.value}: {descriptions[action]}" for action in actions]
        return "\n".join([self.rule(), "The action is one of:", *lines])

    def build_action_descriptions(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> dict[ActionType, str]:
        """Return the descriptions from the table of actions."""
        allowed = context.permitted()
        return {action: SHAPES[action].described(allowed) for action in actions}

    def get_examples(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> list[str]:
        """Return the examples from the table of actions."""
        single = (one for one in actions if one is not ActionType.PARALLEL_INVOKE)
        return self._written(single, context)

    def get_parallel_invocation_examples(self, context: CoordinationContext) -> list[str]:
        """Return the example from the table of actions."""
        return self._written([ActionType.PARALLEL_INVOKE], context)

    def _written(self, actions: Iterable[ActionType], context: CoordinationContext) -> list[str]:
        allowed = context.permitted()
        examples = (example_of(action, allowed, context.tools) for action in actions)
        return [self.spell(example) for example in examples if example is not None]


class JSONResponseFormat(ActionFormat):
    """One JSON object with ``next_action`` and the members of that action."""

    name = "json"
    """The name under which the format is registered."""

    def spell(self, action: JSONObject) -> str:
        """Write an action as compact JSON."""
        return compact(action)

    def rule(self) -> str:
        """Return the rule for every reply."""
        return (
            "Reply with exactly one JSON object and nothing else: "
            "no prose, no code fence, no other members. "
            'It has the member "next_action", the members of that action, '
            'and if you like "thought", a text.'
        )

    def reminder(self) -> str:
        """Return a reminder of the members of an action."""
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
    """Register a format for the whole process.

    Raises ContractError for a blank name, for a taken name without ``replace``, and for a class
    that is not a BaseResponseFormat.
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
    """Return a new format by its name; None means the default.

    Raises ContractError (a ValueError) for an unknown name.
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
    """Make a registered format the default of the whole process.

    Raises ContractError (a ValueError) for an unknown name.
    """
    _class_of(name)
    _Registry.default = name


def is_format_registered(name: str) -> bool:
    """Return whether a format of this name is registered."""
    return name in _Registry.classes


class _DefaultFormat(str):
    """The published default of a parameter: equal to ``json``, but not a name given by a caller."""

    __slots__ = ()


DEFAULT_FORMAT: Final = _DefaultFormat(JSONResponseFormat.name)


def format_of(given: str | BaseResponseFormat | None) -> BaseResponseFormat:
    """Return a format that is given directly or by its registered name.

    None and DEFAULT_FORMAT mean the present default.
    """
    if isinstance(given, BaseResponseFormat):
        return given
    return get_format(None if isinstance(given, _DefaultFormat) else given)


class SystemPromptBuilder:
    """Writes system prompts with valid examples, in a format.

    Pass a format or its name; an unknown name raises ContractError.
    """

    def __init__(self, response_format: str | BaseResponseFormat = DEFAULT_FORMAT) -> None:
        self._format = format_of(response_format)

    def build(
        self,
        agent_context: AgentContext,
        coordination_context: CoordinationContext,
        environmental: Mapping[str, object] | None = None,
    ) -> str:
        """Return the prompt of an agent; ``environmental`` adds facts such as the date.

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

        # leave out empty sections: there may be no facts, or no instructions of a format
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
