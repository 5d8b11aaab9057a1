"""From an agent's raw reply to a valid action, with retries.

A processor reads the reply, and the action is judged by the topology and its shape. The names come
from the published Validation API.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeAlias, TypeVar, cast, get_args, overload, runtime_checkable

from strictreply import (
    AssistantReply,
    Attempt,
    CallFailed,
    Contract,
    ContractError,
    CorrectionContext,
    DirectAnswer,
    Invalid,
    Issue,
    Limits,
    Remedy,
    ReplyRejected,
    RetryPolicy,
    Steering,
    TieredSteering,
    ToolCall,
    ToolCalls,
    Valid,
)
from strictreply.coordination._action_rules import judge_action, refused
from strictreply.coordination._api_replies import (
    CONTENT,
    ApiError,
    ReplyView,
    prompt_request,
    read_draft,
    read_reply,
)
from strictreply.coordination._decisions import DEFAULT_BUDGET
from strictreply.coordination.actions import (
    ActionType,
    AgentReplyCode,
    Branch,
    Origin,
    Source,
    ValidationResult,
    action_named,
    action_schema,
)
from strictreply.coordination.formats import (
    DEFAULT_FORMAT,
    BaseResponseFormat,
    ErrorMessageProcessor,
    JSONResponseFormat,
    ProcessorChain,
    ResponseProcessor,
    ToolCallProcessor,
    format_of,
)
from strictreply.coordination.metrics import RedactReply, ValidationMetrics, VerdictWatch
from strictreply.coordination.state import S, changed
from strictreply.coordination.steering import (
    AgentSteering,
    SteeringContext,
    SteeringMode,
    generate_steering,
    steering_text,
)
from strictreply.coordination.topology import (
    ActionCheck,
    ActionTerms,
    Checks,
    Declared,
    Toolsets,
    Topology,
    permitted_actions,
    read_leave,
)
from strictreply.core import (
    DEFAULT_LIMITS,
    JSON,
    Answer,
    Check,
    Checked,
    Draft,
    Extraction,
    JSONObject,
    Message,
    Work,
    adrive,
    drive,
)
from strictreply.core.judging import aperform_check, check_of, perform_check
from strictreply.wires import wire_named

__all__ = [
    "ActionAnswer",
    "ActionSteering",
    "ActionType",
    "Agent",
    "ProcessorChain",
    "ValidationProcessor",
    "ValidationResult",
    "retry_with_steering",
    "with_reply_format",
]


def with_reply_format(state: S, agent: str, result: ValidationResult) -> S:
    """Return the state with the format of an agent's first valid reply, if it has one.

    Later verdicts read it from the state.
    """
    known = _formats(state)
    spoken = result.source.response_format if result.is_valid else ""
    if not spoken or isinstance(known.get(agent), str):
        return state
    return changed(state, reply_formats={**known, agent: spoken})


def place_in(exec_state: object) -> tuple[JSON, ...]:
    """Return a conversation's id and its position; empty if the state has neither."""
    conversation = _member(exec_state, "conversation_id")
    count = _member(exec_state, "loop_count")
    messages = _member(exec_state, "messages")

    known = (
        conversation if isinstance(conversation, str) else "",
        count if isinstance(count, int) else 0,
        len(cast("list[object]", messages)) if isinstance(messages, list) else 0,
    )
    return known if any(known) else ()


def _member(state: object, name: str) -> object:
    if isinstance(state, Mapping):
        return cast("Mapping[str, object]", state).get(name)
    return getattr(state, name, None)


def _formats(state: object) -> Mapping[str, object]:
    formats = _member(state, "reply_formats")
    return cast("Mapping[str, object]", formats) if isinstance(formats, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAnswer(Answer):
    """The kind of answer that is an action, judged by a :class:`ValidationProcessor`.

    ``schema`` is None if the action is not written in JSON.
    """

    terms: ActionTerms
    """The terms by which an action is judged."""
    chain: ProcessorChain
    """The processors that read a reply."""
    written: BaseResponseFormat
    """The format of replies."""
    extraction: tuple[Extraction, ...]
    """The lenient steps that are allowed to find JSON in a text."""
    pinned: str | None
    """The agent's first format in this conversation; None while there is none."""
    locked: bool
    """Whether another format is a fault; otherwise it is a note."""
    watch: VerdictWatch
    """Counts and logs the verdicts."""

    @property
    def contract(self) -> Contract:
        """The contract for a client's exchange: actions, and calls of the agent's tools."""
        return self.terms.tools.replace(answer=self)

    def of_draft(self, draft: Draft) -> ValidationResult:
        """Judge a reply whose envelope is already read."""
        limits = self.terms.tools.limits
        return self.of_reading(lambda: read_draft(draft, self.extraction, limits))

    def of_reading(self, read: Callable[[], ReplyView | Invalid]) -> ValidationResult:
        """Judge the reply that a function reads; if it raises, nothing can be read."""
        found = self.chain.candidate(read)
        if isinstance(found, Invalid):
            return refused(found.issues, self.terms, Source(lenient=found.lenient))

        action, origin, source = found
        changes: tuple[Issue, ...] = ()
        spoken = source.response_format
        if spoken and self.pinned not in (None, spoken):  # requirements M119, X6
            changes = (AgentReplyCode.FORMAT_CHANGED.at("", name=self.pinned),)
            source = replace(source, notes=(*source.notes, *changes))

        # the system needs no permission, and can always reach the user (M49, X8)
        if origin is Origin.SYSTEM:
            report = action.get("error_details")
            details = cast("JSONObject", report) if isinstance(report, dict) else {}
            allowed = self.terms.permitted
            error = ApiError.of_report(details)
            system = error.to_result(agent=allowed.agent, branch_id=self.terms.branch.id)
            return replace(system, permitted=allowed, source=source)

        if changes and self.locked:
            return refused(changes, self.terms, source)

        return judge_action(action, self.terms, source)

    def judge_draft(self, draft: Draft) -> Valid | Invalid:
        """Judge a whole reply: native calls become tool calls, any other action the answer."""
        result = self.of_draft(draft)
        native = bool(draft.calls)
        if not result.is_valid:
            return _placed(result, "" if native else CONTENT)

        reply: AssistantReply = DirectAnswer(result)
        if native and result.calls:
            reply = result.calls[0] if len(result.calls) == 1 else ToolCalls(result.calls)
        return Valid(reply, result.source.lenient)

    def judge(
        self,
        value: JSON,
        at: str,
        work: Work | None = None,  # noqa: ARG002 - an action counts its own
    ) -> ValidationResult | Invalid:
        """Judge a value of the text channel's ``answer``: an object, or text in another format."""
        view = ReplyView(reply=value, extraction=self.extraction, limits=self.terms.tools.limits)
        if isinstance(value, dict):
            view = replace(view, reply=None, mapping=value)
        elif isinstance(value, str) and self.schema is None:  # else actions are objects, not texts
            view = replace(view, reply=None, text=value)

        result = self.of_reading(lambda: view)
        return result if result.is_valid else _placed(result, at)

    def calls_in(self, answer: object) -> tuple[ToolCall, ...]:
        """Return the calls of an action, for the tools' own checks."""
        return cast("ValidationResult", answer).calls

    def count(self, attempts: Iterable[Attempt], reply: AssistantReply | None = None) -> None:
        """Report every attempt of an exchange to ``watch``; ``reply`` is the accepted reply."""
        agent = self.terms.permitted.agent
        action: ActionType | None = ActionType.CALL_TOOL
        if isinstance(reply, DirectAnswer):
            action = reply.answer.action_type

        for attempt in attempts:
            self.watch.attempted(agent, attempt, action if attempt.accepted else None)


def _placed(result: ValidationResult, at: str) -> Invalid:
    issues = tuple(replace(issue, path=at + issue.path) for issue in result.issues)
    return Invalid(issues, result.source.lenient)


@runtime_checkable
class Agent(Protocol):
    """An agent, identified by its name in the topology.

    An agent with ``tools``, a list or a mapping, may call only those tools.
    """

    @property
    def name(self) -> str:
        """Its name in the topology."""
        ...


class ValidationProcessor:
    """Judges the replies of a topology's agents; safe for threads and tasks."""

    def __init__(
        self,
        topology_graph: Topology,
        response_format: str | BaseResponseFormat | None = DEFAULT_FORMAT,
        *,
        tools: Declared | Mapping[str, Declared] = (),
        leave: Iterable[ActionType | str] = (),
        lock_format: bool = False,
        extraction: Extraction | Iterable[Extraction] = "strict",
        limits: Limits = DEFAULT_LIMITS,
        metrics: ValidationMetrics | None = None,
        log_replies: RedactReply | None = None,
    ) -> None:
        """Judge replies by ``topology_graph``, written in ``response_format``.

        - ``response_format`` is a format or its registered name.
        - ``tools`` are the tools of every agent, or a mapping by agent; an agent's own ``tools``
          take precedence.
        - ``leave`` names actions that must be permitted explicitly: ``terminal_error``,
          ``terminate_workflow``.
        - ``lock_format`` rejects a reply in another format than the agent's first one in this
          conversation. Each verdict then needs the ``exec_state`` with that format
          (:func:`with_reply_format`). Without it another format is only a note.
        - ``extraction`` names the lenient steps of the reader.
        - ``metrics`` counts every verdict.
        - ``log_replies`` redacts the raw reply for the DEBUG log, which has every verdict.

        Raises ContractError (a ValueError) for an unknown format or lenient step, for an action
        that cannot be permitted, and for an object that does not declare a tool.
        """
        self.topology = topology_graph
        """The agents, and the edges between them."""
        self.response_format: BaseResponseFormat = format_of(response_format)
        """The format in which agents write their actions."""
        self._toolsets = Toolsets(topology_graph, tools, limits)
        self._leave = read_leave(leave)
        self._locks = lock_format

        known: tuple[Extraction, ...] = get_args(Extraction)
        modes = (extraction,) if isinstance(extraction, str) else tuple(extraction)
        for mode in modes:
            if mode not in known:
                raise ContractError(f"extraction must be one of {', '.join(known)}, not {mode!r}")

        self._watch = VerdictWatch(metrics, log_replies)
        self._new_answer = partial(
            ActionAnswer, extraction=modes, locked=lock_format, watch=self._watch
        )
        self._checks: Checks = MappingProxyType({})
        # by agent: the last answer kind, and what it was made from
        self._last: dict[str, tuple[tuple[object, ...], ActionAnswer]] = {}

        calls = ToolCallProcessor(max_calls=limits.calls)
        written = self.response_format.create_processor()
        self._chain = ProcessorChain((ErrorMessageProcessor(), calls, written))

    @property
    def processors(self) -> tuple[ResponseProcessor, ...]:
        """The processors, in the order in which they read a reply."""
        return self._chain.processors

    def register_processor(self, processor: ResponseProcessor) -> None:
        """Add a processor, after the ones with the same priority.

        Raises ContractError for an object that is not a processor.
        """
        self._chain = ProcessorChain((*self._chain.processors, processor))

    def register_action_validator(self, action: ActionType | str, check: ActionCheck) -> None:
        """Add a check for every action of this kind that is otherwise valid.

        The check gets a copy of the action, and the permissions. It returns issues or None, or
        raises ValueError. Raises ContractError for an unknown ``action``, and for an async
        ``check``.
        """
        kind = action_named(action)
        if inspect.iscoroutinefunction(check) or not callable(check):
            raise ContractError("an action validator must be a sync function")

        checks = (*self._checks.get(kind, ()), check)
        self._checks = MappingProxyType({**self._checks, kind: checks})

    async def process_response(
        self,
        raw_response: object,
        agent: str | Agent,
        branch: Branch | None = None,
        exec_state: object = None,
    ) -> ValidationResult:
        """Judge a reply of ``agent`` in ``branch``; no content of a reply makes it raise.

        ``raw_response`` is a mapping with the action, a text, a message or a completion as a
        mapping or an SDK object, or an error message (an object with the role ``error``).
        ``branch`` None means a simple branch. ``exec_state`` has the formats of earlier replies and
        the position in the conversation, so that the ids of agents' instances differ from round to
        round; it is only read. The tools' own checks run last and may be async.

        Raises ContractError for an unknown agent, and for a missing ``exec_state`` if formats are
        locked.
        """
        return await self.validate_response(
            raw_response, agent, None, branch, exec_state=exec_state
        )

    async def validate_response(
        self,
        response: object,
        agent_name: str | Agent,
        allowed_agents: Iterable[str] | None = None,
        branch: Branch | None = None,
        *,
        exec_state: object = None,
    ) -> ValidationResult:
        """Judge a reply like :meth:`process_response`.

        ``allowed_agents`` may further limit the agents that the topology allows.
        """
        flow = self.judging(response, agent_name, branch, exec_state, allowed_agents=allowed_agents)
        return self._told(await adrive(flow, aperform_check), response)

    def validate(
        self,
        response: object,
        agent: str | Agent,
        branch: Branch | None = None,
        *,
        allowed_agents: Iterable[str] | None = None,
        exec_state: object = None,
    ) -> ValidationResult:
        """Judge a reply like :meth:`validate_response` without awaiting.

        - ``response`` is a mapping with the action, a text, a message or a completion, or an error
          message.
        - ``agent`` is the agent that replied, or its name.
        - ``branch`` is the branch that the agent works in; None means a simple branch.
        - ``allowed_agents`` further limits the agents that the topology allows; None does not.
        - ``exec_state`` has the formats of earlier replies and the position in the conversation; it
          is only read.

        Raises ContractError for an unknown agent, for a missing ``exec_state`` if formats are
        locked, and when a tool's check is async.
        """
        flow = self.judging(response, agent, branch, exec_state, allowed_agents=allowed_agents)
        return self._told(drive(flow, perform_check), response)

    def judging(
        self,
        response: object,
        agent: str | Agent,
        branch: Branch | None = None,
        exec_state: object = None,
        *,
        allowed_agents: Iterable[str] | None = None,
    ) -> Generator[Check, Checked, ValidationResult]:
        """Judge a reply as a flow, which yields the tools' checks to your own driver.

        Nothing is counted.
        """
        answer = self._answer(agent, branch, exec_state, allowed_agents)
        tools = answer.terms.tools
        result = answer.of_reading(lambda: read_reply(response, answer.extraction, tools))
        effect = check_of(tools, Valid(ToolCalls(result.calls))) if result.calls else None
        if effect is None:
            return result

        checked = yield effect
        return refused(checked.issues, answer.terms, result.source) if checked.issues else result

    def judge_action(
        self, action: JSONObject, agent: str | Agent, branch: Branch | None = None
    ) -> ValidationResult:
        """Judge an action of your program as if the agent had chosen it; nothing is counted."""
        return judge_action(action, self.terms(agent, branch))

    def refused(
        self, issues: Iterable[Issue], agent: str | Agent, branch: Branch | None = None
    ) -> ValidationResult:
        """Return the verdict on an agent's reply that has these faults; nothing is counted."""
        return refused(tuple(issues), self.terms(agent, branch))

    def terms(
        self,
        agent: str | Agent,
        branch: Branch | None = None,
        *,
        allowed_agents: Iterable[str] | None = None,
    ) -> ActionTerms:
        """Return the terms by which an agent's reply in a branch is judged."""
        name, tools = self._known(agent)
        allowed = permitted_actions(
            self.topology,
            name,
            branch=branch,
            tools=tools.by_name,
            leave=self._leave,
            allowed_agents=allowed_agents,
        )
        extra = self.response_format.extra
        return ActionTerms(allowed, tools, branch or Branch(), extra, self._checks)

    def answer_kind(
        self, agent: str | Agent, branch: Branch | None = None, exec_state: object = None
    ) -> ActionAnswer:
        """Return the kind of answer for the loop of a wrapped client.

        ``client.exchange(contract=answer.contract, …)`` then judges like
        :meth:`process_response`. It returns ``DirectAnswer(ValidationResult)`` for an action, and
        tool calls as usual. Raises the errors of process_response, and ContractError for an agent
        without a permitted action.
        """
        answer = self._answer(agent, branch, exec_state)
        allowed = answer.terms.permitted
        if not allowed.actions:
            raise ContractError(
                f"{allowed.agent!r} has no permitted action: review its edges and tools"
            )

        if isinstance(answer.written, JSONResponseFormat):
            schema = action_schema(allowed, answer.terms.extra)
            answer = replace(answer, schema=schema, name="action")

        return answer

    def _answer(
        self,
        agent: str | Agent,
        branch: Branch | None,
        exec_state: object,
        allowed_agents: Iterable[str] | None = None,
    ) -> ActionAnswer:
        if self._locks and exec_state is None:
            raise ContractError("lock_format needs the conversation's state: pass exec_state=")

        name, tools = self._known(agent)
        narrowed = None if allowed_agents is None else tuple(allowed_agents)
        began_in = None if exec_state is None else _formats(exec_state).get(name)
        pinned = began_in if isinstance(began_in, str) else None

        written = self.response_format
        own = (self.topology.version, tools, written, written.extra, self._chain, self._checks)
        basis = (*own, branch, narrowed, pinned)
        last = self._last.get(name)
        if last is None or last[0] != basis:
            terms = self.terms(agent, branch, allowed_agents=narrowed)
            answer = self._new_answer(
                terms=terms, chain=self._chain, written=written, pinned=pinned
            )
            self._last[name] = last = (basis, answer)

        place = place_in(exec_state)
        answer = last[1]
        return replace(answer, terms=replace(answer.terms, place=place)) if place else answer

    def _known(self, agent: str | Agent) -> tuple[str, Contract]:
        name: object = agent if isinstance(agent, str) else getattr(agent, "name", None)
        if not isinstance(name, str):
            raise ContractError(
                f"an agent must be a name, or an object with a name, not {type(agent).__name__}"
            )

        own: Declared | None = None if isinstance(agent, str) else getattr(agent, "tools", None)
        return name, self._toolsets.of(name, own)

    def _told(self, result: ValidationResult, raw: object) -> ValidationResult:
        agent = result.permitted.agent if result.permitted else ""
        self._watch.judged(agent, result, raw)
        return result


E_co = TypeVar("E_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ActionSteering:
    """Writes a client's corrections if its contract requires an action.

    Pass it as ``wrap(…, steering=ActionSteering())``; one serves all agents. ``speaking`` writes
    and counts the corrections of actions. ``otherwise`` writes the others: for the arguments of one
    tool, for a reply that was cut, for another contract, and for all faults if the mode of
    ``speaking`` is ``never``.
    """

    otherwise: Steering = TieredSteering()
    """Writes the corrections of all other faults."""
    speaking: AgentSteering = field(default_factory=AgentSteering)
    """Writes the corrections of actions, and counts them."""

    @property
    def corrects(self) -> bool:
        """Whether invalid replies are corrected at all."""
        return self.speaking.mode is not SteeringMode.NEVER

    def opening(self, answer: ActionAnswer, *, streak: int = 0) -> str | None:
        """Return the text to add to the first request.

        It is None unless the mode is ``always``, or ``streak`` replies contained only text.
        """
        context = self._context(answer, (), streak)
        if streak and self.corrects:
            return steering_text(context)
        return self.speaking.prompt(context)

    def correction(self, context: CorrectionContext) -> str:
        """Return the correction for the model, with more detail at each tier."""
        answer = context.contract.answer
        issues = context.issues
        cut = any(issue.remedy is Remedy.SHORTEN for issue in issues)
        if cut or context.tool is not None or not isinstance(answer, ActionAnswer):
            return self.otherwise.correction(context)

        words = self.speaking.prompt(self._context(answer, issues, context.tier))
        return self.otherwise.correction(context) if words is None else words

    def _context(
        self, answer: ActionAnswer, issues: tuple[Issue, ...], count: int
    ) -> SteeringContext:
        return SteeringContext(
            permitted=answer.terms.permitted,
            issues=issues,
            retry_count=count,
            tools=answer.terms.tools.by_name,
            response_format=answer.written,
        )


class Exchanged(Protocol):
    """An exchange: the reply, all attempts, and the conversation up to the reply."""

    @property
    def reply(self) -> AssistantReply: ...

    @property
    def attempts(self) -> tuple[Attempt, ...]: ...

    @property
    def transcript(self) -> Sequence[Message]: ...


class ExchangingClient(Protocol[E_co]):
    """The part of a wrapped client that is needed here; an async one returns an awaitable."""

    @property
    def exchange(self) -> Callable[..., E_co]: ...


class RunningAgent(Protocol):
    """An agent of the published form; ``run`` returns its reply to a prompt, or an awaitable."""

    def run(self, prompt: str) -> object: ...


# Judges a reply: ``processor.validate``, or ``processor.process_response``, with the agent bound.
Validate: TypeAlias = Callable[[object], ValidationResult | Awaitable[ValidationResult]]


@overload
def retry_with_steering(
    client: ExchangingClient[Exchanged],
    answer: ActionAnswer,
    max_retries: int | None = None,
    *,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: object,
) -> ValidationResult: ...


@overload
def retry_with_steering(
    client: ExchangingClient[Awaitable[Exchanged]],
    answer: ActionAnswer,
    max_retries: int | None = None,
    *,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: object,
) -> Awaitable[ValidationResult]: ...


@overload
def retry_with_steering(
    client: RunningAgent,
    answer: str | None,
    max_retries: int | None = None,
    *,
    policy: RetryPolicy = DEFAULT_BUDGET,
    original_prompt: str,
    validate_response: Validate,
) -> Awaitable[ValidationResult]: ...


def retry_with_steering(
    client: object,
    answer: ActionAnswer | str | None,
    max_retries: int | None = None,
    *,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: object,
) -> ValidationResult | Awaitable[ValidationResult]:
    """Call a wrapped client, and retry until the reply is a valid action of ``answer``'s agent.

    With an async client the result is awaitable.

    ``answer`` is the result of :meth:`ValidationProcessor.answer_kind`; its tools are declared
    natively. ``request`` has the keywords of ``chat.completions.create``. An invalid reply is
    retried at most ``max_retries`` times, None for the number in ``policy``. The client's steering
    writes the corrections; it should be :class:`ActionSteering`. The processor's metrics
    count every attempt.

    In the published form, ``await retry_with_steering(agent, steering, max_retries=3, …)``, an
    agent's ``run(…)`` is called at most ``max_retries`` times, with ``original_prompt`` and the
    newest steering; ``validate_response`` judges its replies.

    Raises the client's errors: ReplyRejected when the retries are exhausted, ReplyHalted or
    TransportFailed. In the published form, raises ContractError when one of the two keywords is
    missing.
    """
    budget = policy if max_retries is None else replace(policy, max_retries=max_retries)

    if not isinstance(answer, ActionAnswer):
        if request.keys() != {"original_prompt", "validate_response"} or None in request.values():
            raise ContractError(
                "retry_with_steering needs a wrapped client and processor.answer_kind(agent), or "
                "an agent with run(prompt), a steering, original_prompt= and validate_response="
            )

        agent = cast("RunningAgent", client)
        prompt = cast("str", request["original_prompt"])
        validate = cast("Validate", request["validate_response"])
        return _steered(agent, answer, budget.max_retries, prompt, validate)

    wrapped = cast("ExchangingClient[Exchanged | Awaitable[Exchanged]]", client)
    with _counted_failure(answer):
        called = wrapped.exchange(contract=answer.contract, policy=budget, **request)

    if isinstance(called, Awaitable):
        return _awaited(called, answer)
    return _accepted(called, answer)


async def _steered(
    agent: RunningAgent,
    steering: str | None,
    max_retries: int,
    original_prompt: str,
    validate_response: Validate,
) -> ValidationResult:
    attempts: tuple[Attempt, ...] = ()
    for number in range(1, max_retries + 1):
        prompt = original_prompt if steering is None else f"{original_prompt}\n\n{steering}"
        response = agent.run(prompt)
        response = await response if isinstance(response, Awaitable) else response
        judged = validate_response(response)
        result = await judged if isinstance(judged, Awaitable) else judged
        if result.is_valid:
            return result

        request = prompt_request(prompt)
        raw = response if isinstance(response, str) else None
        failed = Attempt(number, request, raw, result.issues, correction=steering, tier=number)
        attempts = (*attempts, failed)
        steering = generate_steering(result, retry_count=number + 1)

    raise ReplyRejected(
        f"Still not valid after {max_retries} attempts.", reason="retries", attempts=attempts
    )


async def _awaited(called: Awaitable[Exchanged], answer: ActionAnswer) -> ValidationResult:
    with _counted_failure(answer):
        exchange = await called
    return _accepted(exchange, answer)


@contextmanager
def _counted_failure(answer: ActionAnswer) -> Generator[None]:
    try:
        yield
    except CallFailed as error:
        answer.count(error.attempts)
        raise


def _accepted(exchange: Exchanged, answer: ActionAnswer) -> ValidationResult:
    answer.count(exchange.attempts, exchange.reply)

    if isinstance(exchange.reply, DirectAnswer):
        return cast("ValidationResult", exchange.reply.answer)
    wire = wire_named(exchange.attempts[-1].api)
    return answer.of_draft(wire.replay.read(exchange.transcript[-1]))
