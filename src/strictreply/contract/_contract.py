"""The contract: a frozen value that says which replies are valid, and judges them."""

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
    """Effect: run the checks of these tools. A job is a tool, typed arguments and their pointer."""

    jobs: tuple[tuple[Tool, Any, str], ...]
    """Each tool, its typed arguments, and where these stand in the reply."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Event: the issues that the checks found, and the seconds they took."""

    issues: tuple[Issue, ...]
    """What the checks found."""
    seconds: float = 0.0
    """How long they took."""


class ContractKeywords(TypedDict, total=False):
    """The keywords of a contract except ``answer``; see the fields of :class:`Contract`."""

    tools: Iterable[object]
    """Functions, pydantic models, :class:`Tool` values, OpenAI definitions and MCP entries."""
    channel: Channel
    """Where calls are written: ``native`` (``tool_calls``) or ``text`` (JSON in the content)."""
    parallel: bool
    """Whether one reply may contain several native calls."""
    extraction: Extraction | Iterable[Extraction]
    """Lenient steps that find JSON in a text; ``strict`` allows none."""
    extra: Extra | None
    """What happens to keys that a schema does not mention; None keeps each tool's setting."""
    formats: Formats | None
    """Whether ``format`` is enforced; None keeps each tool's setting."""
    answer_style: AnswerStyle
    """``tool`` makes calls of ``final_answer`` the only way to answer."""
    allow_blank_answers: bool
    """Whether an answer may be only whitespace."""
    text_calls: TextCalls
    """Whether a call written as text is accepted as an answer, or is a fault."""
    dialects: Dialects
    """Whether known deviations of servers are accepted."""
    limits: Limits
    """Size limits of a reply."""
    quarantine: bool
    """Whether a tool with a wrong declaration is left out with a warning, instead of raising."""
    strict: Strict
    """Whether to request the provider's strict mode, with converted schemas."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Contract(Generic[A_co]):
    """Which replies are valid: calls of these tools, and answers of this type.

    A contract is immutable, compiled once, and safe to share between threads and tasks.

    - ``allow_blank_answers`` accepts whitespace as an answer.
    - ``quarantine`` leaves out a tool whose declaration is wrong, or whose name is already used,
      with a ContractWarning instead of an error, so one bad tool of an MCP server does not disable
      the others.

    Raises ContractError if a declaration is wrong, TypeError for an unknown keyword.
    """

    tools: tuple[Tool, ...]
    """The tools that may be called.

    Pass functions, pydantic models, :class:`Tool` values, OpenAI definitions or MCP entries.
    """
    answer: Answer[A_co]
    """The type of a direct answer: ``str``, a pydantic type or a JSON Schema."""
    channel: Channel = "native"
    """Where the model writes calls: ``native`` (``tool_calls``) or ``text`` (JSON in the text)."""
    parallel: bool = False
    """Whether one reply may contain several native calls."""
    extraction: tuple[Extraction, ...] = ("strict",)
    """Lenient steps that find JSON in a text, one or several; ``strict`` allows none."""
    extra: Extra | None = None
    """What happens to keys that a schema does not mention: ``forbid`` rejects them.

    ``schema`` follows JSON Schema, which allows them. The setting applies to the answer and all
    tools, also to the tools of a request; None keeps each tool's own setting.
    """
    formats: Formats | None = None
    """Whether ``format`` is enforced in the tools and the answer.

    None keeps each tool's own setting, and enforces formats in the answer.
    """
    answer_style: AnswerStyle = "union"
    """``tool`` makes calls of the tool ``final_answer`` the only way to answer."""
    text_calls: TextCalls = "refuse"
    """What happens to a text answer that is a call of a declared tool, written as text.

    ``refuse`` reports it as ``call.as_text``; ``answer`` accepts it as an answer. It applies to a
    native text that as a whole has a known format of calls, and to a text with a call between the
    markers of a chat template (``<tool_call>``, …).
    """
    dialects: Dialects = "known"
    """Which deviations from the API's format are accepted.

    ``known`` accepts known deviations of servers, and the verdict names each in ``lenient``.
    ``strict`` accepts none.
    """
    limits: Limits = DEFAULT_LIMITS
    """Size limits of a reply."""
    choice: str = "auto"
    """The tool choice of a request: ``auto``, ``required``, ``none``, or the tool to call."""
    offered: tuple[Tool, ...] = ()
    """All tools that the request declares, if only some may be called (``allowed_tools``).

    Empty if all may be called.
    """
    ids_may_repeat: bool = False
    """Whether a call may repeat the id of an earlier call of its conversation.

    The caller then assigns ids.
    """
    spaces: Spaces | None = None
    """The names of the tools that are in a namespace; None if there are none."""
    quarantined: Mapping[str, Issue] = field(default_factory=dict[str, Issue])
    """The fault of each tool that was left out, by its name."""
    strict: Strict = "auto"
    """Whether to request the provider's strict mode.

    - ``auto``: if the provider is known and a schema can be converted to a form that it enforces.
    - ``True``: always; raises ContractError if a schema cannot be converted.
    - ``False``: never; schemas are sent as declared.

    strictreply always checks replies against the full schema.
    """
    provider: StrictProvider | None = None
    """The provider that gets the schemas of a call; None if unknown."""

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
        """Return the same contract with other values for some fields.

        The values must be of the types of the fields. Raises TypeError for an unknown field,
        ContractError if the values contradict each other.
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
                f"{FINAL_ANSWER!r} is reserved for the answer with answer_style='tool'; "
                "rename the tool"
            )

    def __repr__(self) -> str:
        """Show the channel and the tools."""
        return f"Contract(channel={self.channel!r}, tools=[{self.tool_list}])"

    def __getstate__(self) -> dict[str, object]:
        """Return only the fields, because everything else can be computed from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def asks_strictly(self) -> bool:
        """Whether a strict mode is mandatory, for any provider."""
        return self.strict is True or any(tool.strict is True for tool in self.tools)

    def sent_to(self, provider: StrictProvider | None) -> Self:
        """Return the same contract for calls to this provider."""
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
        """The schemas that are sent in the provider's strict mode; None for none."""
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
        """The warnings about requests that :meth:`next_request` has issued."""
        return set()

    @cached_property
    def takes_text(self) -> bool:
        """Whether a tool takes free text as its input."""
        return any(tool.origin.custom is not None for tool in self.tools)

    @cached_property
    def unchecked(self) -> frozenset[str]:
        """The tools whose input is unchecked free text; a verdict names them in ``lenient``."""
        return frozenset(tool.name for tool in self.tools if is_unchecked(tool))

    @cached_property
    def names(self) -> frozenset[str]:
        """All member names in the contract: only these may occur in the path of an issue."""
        schemas = [self.answer.schema, *(tool.parameters for tool in self.tools)]
        return UNION_NAMES.union(*(schema.names for schema in schemas if schema is not None))

    @cached_property
    def callable_names(self) -> list[str]:
        """The names that a call may have, with ``final_answer`` if answers are calls."""
        own = [FINAL_ANSWER] if self.answer_style == "tool" else []
        return ToolNames([*self.by_name, *own], self.spaces)

    @cached_property
    def tool_list(self) -> str:
        """The tools' names as text, capped, for corrections and messages."""
        names = self.callable_names
        more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
        return ", ".join(names[:MAX_LISTED_NAMES]) + more

    def calls_in(self, reply: AssistantReply) -> tuple[ToolCall, ...]:
        """Return the tool calls of a reply in order, including those inside an answer."""
        if isinstance(reply, DirectAnswer):
            return self.answer.calls_in(reply.answer)
        return reply.calls

    def with_choice(self, choice: str) -> Self:
        """Return the same contract with this ``tool_choice``.

        Raises ContractError if it names a tool that is not declared, or if it requires a call and
        no tools are declared.
        """
        if choice not in CHOICES and choice not in self.callable_names:
            raise ContractError(
                f"tool_choice names {choice!r}, not one of the tools: {self.tool_list or 'none'}"
            )

        if choice == "required" and not self.tools and self.answer_style == "union":
            raise ContractError("tool_choice is 'required' but no tools are declared")

        return self.replace(choice=choice)

    def only(self, *names: str) -> Self:
        """Return the contract for a retry that requests calls of these tools only.

        Each must be called as often as it is named.
        """
        tools = tuple(self.by_name[name] for name in dict.fromkeys(names))
        several = len(names) > 1
        choice = "required" if several else tools[0].name
        return self.replace(
            tools=tools, choice=choice, offered=(), parallel=several, answer_style="union"
        )

    def check(self, reply: object, *, api: Api | str | None = None) -> Verdict[A_co]:
        """Return the verdict on a reply, without a client and without I/O.

        - ``reply`` is a message, a completion or a response of the Responses API, as a mapping, an
          SDK object or JSON text; in the text channel a JSON text is the content itself.
        - ``api`` names the API; None infers it from the form of the reply.

        The tools' own checks run last. Raises ContractError if one of them is async: use
        :meth:`acheck`.
        """
        return drive(self._check(reply, api), perform_check)

    async def acheck(self, reply: object, *, api: Api | str | None = None) -> Verdict[A_co]:
        """Return the verdict on a reply like :meth:`check`, and await async checks of tools.

        - ``reply`` is a message, a completion or a response.
        - ``api`` names its API; None infers it from the form of the reply.
        """
        return await adrive(self._check(reply, api), aperform_check)

    def next_request(
        self,
        request: Mapping[str, object],
        *responses: object,
        api: Api | str | None = None,
        policy: BaseRetryPolicy | None = None,
        steering: Steering | None = None,
    ) -> NextRequest[A_co]:
        """Judge a response, and return the verdict and the next request, if one is needed.

        Use it if you send requests yourself, through another transport or a provider's batch. It is
        one step of the loop that a wrapped client runs. Without ``responses`` it returns the first
        request.

        - ``request``: keywords of ``chat.completions.create`` or ``responses.create``, or the
          request of an earlier step. Tools and the format of the answer may be left out: this
          contract adds them.
        - ``responses``: for your own request, all responses so far, in order. For the request of an
          earlier step, only the response to it: the request remembers the earlier ones while it is
          in memory. Each is a mapping, an SDK object, JSON text, or the exception that was raised.
        - ``api``: None means ``responses`` for a request with ``input`` and without ``messages``,
          else ``chat``.
        - ``policy``: the budgets of the call. None means that of the earlier step, else
          ``RetryPolicy()``.
        - ``steering``: writes the corrections. None means that of the earlier step, else
          ``TieredSteering()``.

        Raises ContractError if the request is wrong, if the check of a tool is async, or if the
        call has already ended.
        """
        # imported here, because the loop is a layer above the contract
        from strictreply.retry._next_request import next_request  # noqa: PLC0415

        # the caller sends the request, so the provider is unknown here
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
    """Return the effect that runs the checks of the called tools.

    None if the reply is invalid, or if no called tool has a check.
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
    """Run the checks in order; raise ContractError if one is async."""
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
    """Call a tool's check on a copy of the arguments, and return its result.

    A ValueError of the check is returned, unless it is a failure of the check itself (see
    :func:`refuse_own_failure`), which is raised like any other exception.
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
