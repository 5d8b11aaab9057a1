"""The contract of a reply: one frozen value, and the verdict on a reply.

Also what the keywords of one request ask for, read into a contract of that request.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, Unpack, get_args, overload

from strictreply.contract._answer import FINAL_ANSWER, Answer
from strictreply.contract._driving import adrive, drive
from strictreply.contract._judge import judge_reply
from strictreply.contract._models import check_issues, refuse_own_failure
from strictreply.contract._quarantine import CHOICES, by_name, quarantined
from strictreply.contract._sent_schemas import SentSchemas, sent_schemas
from strictreply.contract._tool import Tool, is_unchecked, tools_of
from strictreply.schema._sent_form import StrictProvider
from strictreply.values._drafts import arguments_place
from strictreply.values._errors import ContractError, must_be
from strictreply.values._issues import Issue
from strictreply.values._limits import (
    DEFAULT_LIMITS,
    AnswerStyle,
    Channel,
    Dialects,
    Extra,
    Extraction,
    Formats,
    Limits,
    Strict,
    TextCalls,
)
from strictreply.values._mistakes import IN_WRAP, refuse_unknown
from strictreply.values._replies import (
    A_co,
    AssistantReply,
    DirectAnswer,
    Invalid,
    ToolCall,
    Verdict,
)
from strictreply.wires import Api, wire_named
from strictreply.wires._declared_tools import Spaces, ToolNames

if TYPE_CHECKING:
    from strictreply.contract._correcting import BaseRetryPolicy, NextRequest, Steering


UNION_NAMES = frozenset({"tool", "args", "answer"})
MAX_LISTED_NAMES = 20
MAX_WARNED = 1_000
_WORDS = {
    "channel": get_args(Channel),
    "answer_style": get_args(AnswerStyle),
    "text_calls": get_args(TextCalls),
    "dialects": get_args(Dialects),
    "extra": (None, *get_args(Extra)),
    "formats": (None, *get_args(Formats)),
    "strict": ("auto", True, False),
}


@dataclass(frozen=True, slots=True)
class Check:
    """Effect: run these tools' checks on these typed arguments.

    The text says where the arguments stand.
    """

    jobs: tuple[tuple[Tool, Any, str], ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """Event: what the checks found, and the seconds they took."""

    issues: tuple[Issue, ...]
    seconds: float = 0.0


class ContractKeywords(TypedDict, total=False):
    """The keywords of a contract beside ``answer``; :class:`Contract` says what each means."""

    tools: Iterable[object]
    """Functions, pydantic models, :class:`Tool` values, OpenAI definitions and MCP entries."""
    channel: Channel
    """Where calls are written: ``native`` (``tool_calls``) or ``text`` (JSON in the content)."""
    parallel: bool
    """Whether several native calls at once are allowed."""
    extraction: Extraction | Iterable[Extraction]
    """The lenient steps that find JSON in a text; ``strict`` allows none."""
    extra: Extra | None
    """What becomes of keys outside the schemas; None leaves each tool as it was declared."""
    formats: Formats | None
    """Whether ``format`` is asserted; None leaves each tool as it was declared."""
    answer_style: AnswerStyle
    """Whether the tool ``final_answer`` is the only way to answer (requirement T14)."""
    allow_blank_answers: bool
    """Whether white space is accepted as an answer."""
    text_calls: TextCalls
    """Whether a call that is written as text is an answer, or a fault."""
    dialects: Dialects
    """Which forms of messages are accepted."""
    limits: Limits
    """The size limits of a reply."""
    quarantine: bool
    """Whether a wrong tool is left out with a warning, in place of raising."""
    strict: Strict
    """Whether a provider's strict mode is asked for, with the schemas in the form it takes."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Contract(Generic[A_co]):
    """What a reply may be: immutable, compiled once, safe to share between threads and tasks.

    ``allow_blank_answers`` accepts white space as an answer. ``quarantine`` leaves out each tool
    whose declaration is wrong, or repeats a name, with a ContractWarning, in place of raising: one
    bad tool of an MCP server does not take the others with it. Raises ContractError when a
    declaration is wrong, TypeError for an unknown keyword.
    """

    tools: tuple[Tool, ...]
    """The tools that may be called.

    Given are functions, pydantic models, :class:`Tool` values, OpenAI definitions and MCP entries.
    """
    answer: Answer[A_co]
    """What a direct answer must be: ``str``, a pydantic type or a JSON Schema."""
    channel: Channel = "native"
    """Where calls are written.

    It is ``native`` (``tool_calls``) or ``text`` (a JSON union in the content).
    """
    parallel: bool = False
    """Whether several native calls at once are allowed."""
    extraction: tuple[Extraction, ...] = ("strict",)
    """The lenient steps that find JSON in a text, one or several; ``strict`` allows none."""
    extra: Extra | None = None
    """What becomes of keys that a schema does not have: ``forbid`` or ``schema``.

    It holds for all tools and the answer, also those in a request; None leaves each tool as it was
    declared.
    """
    formats: Formats | None = None
    """Whether ``format`` is asserted in the tools and the answer.

    None leaves each tool as it was declared, and asserts it in the answer.
    """
    answer_style: AnswerStyle = "union"
    """``tool`` makes the tool ``final_answer`` the only way to answer (requirement T14)."""
    text_calls: TextCalls = "refuse"
    """What a call of a declared tool that is written as text is.

    ``answer`` accepts a native text answer that is, as a whole, a call of a declared tool in a form
    that models are known to write, or holds one between the markers of a chat template
    (``<tool_call>``, …); ``refuse`` makes it the fault ``call.as_text``.
    """
    dialects: Dialects = "known"
    """Which forms of messages are accepted.

    ``strict`` takes a message in the API's own form only; ``known`` accepts known deviations of
    servers, each of which the verdict names in its ``lenient``.
    """
    limits: Limits = DEFAULT_LIMITS
    """The size limits of a reply."""
    choice: str = "auto"
    """What one request demands.

    It is ``auto``, ``required``, ``none`` or the name of the one tool that must be called.
    """
    offered: tuple[Tool, ...] = ()
    """The tools that the model is shown where it may call some of them only (``allowed_tools``).

    There are none where it may call all that it is shown.
    """
    ids_may_repeat: bool = False
    """Whether a call may have the id of an earlier one of its conversation.

    The caller then assigns ids.
    """
    spaces: Spaces | None = None
    """The names of the tools that stand in a namespace; None where none do."""
    quarantined: Mapping[str, Issue] = field(default_factory=dict[str, Issue])
    """The fault of each tool that was left out, by its name."""
    strict: Strict = "auto"
    """Whether a provider's strict mode is asked for.

    ``auto`` asks for it where the provider is known and a schema has a form that it enforces,
    ``True`` raises ContractError where one has none, ``False`` sends schemas as they are declared.
    The full schema judges what comes in any case.
    """
    provider: StrictProvider | None = None
    """Who is sent the schemas of a call; None where that is not known."""

    @overload
    def __init__(
        self: Contract[str], *, answer: type[str] = ..., **keywords: Unpack[ContractKeywords]
    ) -> None: ...
    @overload
    def __init__(
        self, *, answer: type[A_co] | Answer[A_co], **keywords: Unpack[ContractKeywords]
    ) -> None: ...
    @overload
    def __init__(
        self: Contract[Any], *, answer: object, **keywords: Unpack[ContractKeywords]
    ) -> None: ...
    def __init__(self, *, answer: object = str, **keywords: Unpack[ContractKeywords]) -> None:
        known = ("answer", *ContractKeywords.__annotations__)
        refuse_unknown("Contract()", keywords, IN_WRAP, known)

        values: dict[str, Any] = {**keywords}
        extra = values.get("extra")
        formats = values.get("formats")
        blank = values.pop("allow_blank_answers", False)

        given = values.get("extraction", "strict")
        values["extraction"] = (given,) if isinstance(given, str) else tuple(given)
        modes = [("extraction", mode, get_args(Extraction)) for mode in values["extraction"]]

        words = [
            (name, keywords.get(name, allowed[0]), allowed) for name, allowed in _WORDS.items()
        ]
        for name, value, allowed in words + modes:
            if value not in allowed:
                raise ContractError(
                    f"{name} must be one of {', '.join(map(str, allowed))}; got {value!r}"
                )

        limits = values.get("limits", DEFAULT_LIMITS)
        must_be("limits", limits, Limits, "a Limits, as in Limits(depth=20)")
        quarantine = values.pop("quarantine", False)
        must_be("parallel", values.get("parallel", False), bool, "True or False")
        must_be("quarantine", quarantine, bool, "True or False")
        must_be("allow_blank_answers", blank, bool, "True or False")

        tools = values.get("tools", ())
        if not isinstance(tools, Iterable) or isinstance(tools, str | Mapping):
            raise ContractError(
                f"tools must be a list of tools; put the one {type(tools).__name__} into a list"
            )

        values["quarantined"] = {}
        if quarantine:
            sound, values["quarantined"] = quarantined(tools, extra=extra, formats=formats)
            values["tools"] = tuple(sound)
        else:
            values["tools"] = tuple(tools_of(tools, extra=extra, formats=formats))

        values["answer"] = Answer.of(
            answer, extra=extra or "forbid", formats=formats or "assert", blank=blank
        )
        self._set(values)

    def replace(self, **values: Any) -> Self:
        """Return the same contract with other values in some of its fields.

        The values are compiled ones, as the fields hold them. Raises TypeError for a name that is
        not a field, ContractError when the values do not go together.
        """
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        if unknown := values.keys() - held.keys():
            raise TypeError(f"a contract has no field {min(unknown)!r}; it has {', '.join(held)}")

        other = object.__new__(type(self))
        other._set(held | values)
        return other

    def _set(self, values: Mapping[str, object]) -> None:
        vars(self).update(values)  # frozen: past __setattr__
        if FINAL_ANSWER in self.by_name and self.answer_style == "tool":
            raise ContractError(
                f"{FINAL_ANSWER!r} is the answer with answer_style='tool'; rename the tool"
            )

    def __repr__(self) -> str:
        """Show the channel and the tools."""
        return f"Contract(channel={self.channel!r}, tools=[{self.tool_list}])"

    def __getstate__(self) -> dict[str, object]:
        """Return what it was declared with: what was made of that is made anew where it goes."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def asks_strictly(self) -> bool:
        """Whether a strict mode must be asked for, whoever serves the call."""
        return self.strict is True or any(tool.strict is True for tool in self.tools)

    def sent_to(self, provider: StrictProvider | None) -> Self:
        """Return the same contract for calls that a provider serves."""
        if provider == self.provider:
            return self
        if provider not in self._sent_to:
            self._sent_to[provider] = self.replace(provider=provider)

        return self._sent_to[provider]

    @cached_property
    def _sent_to(self) -> dict[StrictProvider | None, Self]:
        return {}

    @cached_property
    def sent(self) -> SentSchemas | None:
        """What of it is sent in the provider's strict mode; None for nothing."""
        if self.provider is None or self.channel != "native":
            return None

        answer = self.answer if self.answer_style == "union" else None
        return sent_schemas(self.offered or self.tools, answer, self.strict, self.provider)

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        """The tools by name, in the order they were declared."""
        return by_name(self.tools)

    @cached_property
    def warned(self) -> set[str]:
        """The warnings that were given of requests by :meth:`next_request`."""
        return set()

    @cached_property
    def takes_text(self) -> bool:
        """Whether a tool is declared whose input is free text."""
        return any(tool.origin.custom is not None for tool in self.tools)

    @cached_property
    def unchecked(self) -> frozenset[str]:
        """The tools whose input is free text that nothing checks.

        A verdict names them in its ``lenient``.
        """
        return frozenset(tool.name for tool in self.tools if is_unchecked(tool))

    @cached_property
    def names(self) -> frozenset[str]:
        """Every member name that the contract speaks of: only these may stand in a path."""
        schemas = [self.answer.schema, *(tool.parameters for tool in self.tools)]
        return UNION_NAMES.union(*(schema.names for schema in schemas if schema is not None))

    @cached_property
    def callable_names(self) -> list[str]:
        """The names that a call may have: the tools', and ``final_answer`` where it is a tool."""
        own = [FINAL_ANSWER] if self.answer_style == "tool" else []
        return ToolNames([*self.by_name, *own], self.spaces)

    @cached_property
    def tool_list(self) -> str:
        """The tools' names as text, capped: our words, fit for a correction (requirement T34)."""
        names = self.callable_names
        more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
        return ", ".join(names[:MAX_LISTED_NAMES]) + more

    def calls_in(self, reply: AssistantReply) -> tuple[ToolCall, ...]:
        """Return the tool calls of a reply in order, also those inside an answer."""
        if isinstance(reply, DirectAnswer):
            return self.answer.calls_in(reply.answer)
        return reply.calls

    def with_choice(self, choice: str) -> Self:
        """Demand what ``tool_choice`` demands.

        Raises ContractError when it names a tool that is not declared, and when it demands a call
        but no tools are declared.
        """
        if choice not in CHOICES and choice not in self.callable_names:
            raise ContractError(
                f"tool_choice names {choice!r}, not one of the tools: {self.tool_list or 'none'}"
            )

        if choice == "required" and not self.tools and self.answer_style == "union":
            raise ContractError("tool_choice is 'required' but no tools are declared")

        return self.replace(choice=choice)

    def only(self, *names: str) -> Self:
        """Narrow to the tools that must be called, each as often as it is named.

        This is the contract of a retry that asks for calls.
        """
        tools = tuple(self.by_name[name] for name in dict.fromkeys(names))
        several = len(names) > 1
        choice = "required" if several else tools[0].name
        return self.replace(
            tools=tools, choice=choice, offered=(), parallel=several, answer_style="union"
        )

    def check(self, reply: object, *, api: Api | str | None = None) -> Verdict[A_co]:
        """Judge a reply: no client, no I/O.

        ``reply`` is a JSON text (the union in the text channel, a message or a completion in the
        native one), an OpenAI message, a completion or a response of the Responses API, each as a
        mapping or an SDK object. ``api`` says by which API it came; None means that its form
        decides. The tools' own checks run last. Raises ContractError when one of them is async:
        use :meth:`acheck` then.
        """
        return drive(self._check(reply, api), perform_check)

    async def acheck(self, reply: object, *, api: Api | str | None = None) -> Verdict[A_co]:
        """Judge a reply like :meth:`check`, awaiting the tools' async checks."""
        return await adrive(self._check(reply, api), aperform_check)

    def next_request(
        self,
        request: Mapping[str, object],
        *responses: object,
        api: Api | str | None = None,
        policy: BaseRetryPolicy | None = None,
        steering: Steering | None = None,
    ) -> NextRequest[A_co]:
        """Judge what came, and make the request that corrects it.

        This is one step of the client's own loop, for those who send requests themselves: through
        another transport, or a provider's batch. ``request`` has the keywords of
        ``chat.completions.create`` or of ``responses.create``; its tools and the format of its
        answer may be left to this contract. ``responses`` are all that came so far, in order: each
        a completion or a response as a mapping, an SDK object or JSON text, or the exception that
        came instead. Without any, the first request is made. A request from here remembers what
        came before while it is in memory: pass it with the one response to it, or your own with
        all of them. ``api`` None means ``responses`` for a request with ``input`` but without
        ``messages``, else ``chat``. ``policy`` and ``steering`` None mean those that such a request
        remembers, else the defaults. Raises ContractError when the request is wrong, a tool's check
        is async, or nothing is left to request.
        """
        # the loop stands above the contract
        from strictreply.retry._next_request import next_request  # noqa: PLC0415

        # the caller sends it, to a server that is not known here
        contract = self.sent_to(None)
        return next_request(contract, request, responses, policy, steering, api)

    def _check(
        self, reply: object, api: Api | str | None
    ) -> Generator[Check, Checked, Verdict[A_co]]:
        verdict = judge_reply(self, reply, None if api is None else wire_named(api))
        effect = check_of(self, verdict)
        if effect is None:
            return verdict

        checked = yield effect
        return Invalid(checked.issues, verdict.lenient) if checked.issues else verdict


def check_of(contract: Contract, verdict: Verdict) -> Check | None:
    """Return the effect that asks for the checks of the called tools.

    None when the reply is invalid, or no called tool has a check.
    """
    if isinstance(verdict, Invalid):
        return None

    jobs: list[tuple[Tool, Any, str]] = []
    for index, call in enumerate(contract.calls_in(verdict.reply)):
        tool = contract.by_name.get(call.tool)
        if tool is None or tool.check is None:
            continue

        at = "/args" if contract.channel == "text" else arguments_place(index)

        jobs.append((tool, call.args, at))

    return Check(tuple(jobs)) if jobs else None


def perform_check(effect: Check) -> Checked:
    """Run the checks in order; raise ContractError when one turns out to be async."""
    issues: list[Issue] = []
    for tool, args, at in effect.jobs:
        outcome = _outcome(tool, args)
        if inspect.iscoroutine(outcome):
            outcome.close()
            raise ContractError(
                f"the check of tool {tool.name!r} is async; use an async client, or Contract.acheck"
            )

        issues += check_issues(outcome, args, at=at, names=tool.parameters.names)

    return Checked(tuple(issues))


async def aperform_check(effect: Check) -> Checked:
    """Run the checks in order, awaiting those that are async."""
    issues: list[Issue] = []
    for tool, args, at in effect.jobs:
        outcome = _outcome(tool, args)
        try:
            if inspect.isawaitable(outcome):
                outcome = await outcome
        except ValueError as error:
            refuse_own_failure(error)
            outcome = error

        issues += check_issues(outcome, args, at=at, names=tool.parameters.names)

    return Checked(tuple(issues))


def _outcome(tool: Tool, args: object) -> Any:
    """Call a tool's check on a copy of the arguments, and return what it found.

    A ValueError that the check raises is returned; anything else is raised, and so are those that
    no argument is to blame for: see :func:`refuse_own_failure`.
    """
    try:
        given = copy.deepcopy(args)
    except (TypeError, copy.Error) as error:
        kind = type(error).__name__
        raise ContractError(
            f"the arguments of tool {tool.name!r} cannot be copied for its check: {kind}"
        ) from error

    try:
        return None if tool.check is None else tool.check(given)
    except ValueError as error:
        refuse_own_failure(error)
        return error
