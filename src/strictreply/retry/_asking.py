"""What is sent: the first request of a call, and the requests that follow a bad reply.

These have the caller's messages, the last bad reply and one correction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from strictreply.contract._channels import admits_answer, answer_instructions
from strictreply.contract._contract import Contract
from strictreply.reading._decoding import decode, extract, is_json
from strictreply.retry._dressing import (
    contract_for,
    dressed,
    encodable,
    instructed,
    narrowed,
    replayed,
)
from strictreply.retry._failures import Failure
from strictreply.retry._policy import Again, Consult, RetryPolicy, Step, steps_in_force
from strictreply.retry._scoping import Scope, own_scope, shown
from strictreply.retry._steering import Situation, Steering, corrections, is_at
from strictreply.values._issues import Code, Issue, Remedy, quote
from strictreply.values._limits import JSON, JSONObject, Message, Work, is_count, utf8_size
from strictreply.values._replies import Invalid, Usage
from strictreply.wires import WIRES
from strictreply.wires._members import ids_in, peek
from strictreply.wires._wire import Wire

# OpenRouter answers 404 where no provider takes a ``tool_choice``, llama.cpp has answered 500
_REFUSALS = frozenset({"invalid_request", "not_found", "api_error", "server_error"})

NEAR_LIMIT = 0.9
"""The part of the limit from which JSON that breaks off was cut.

Gateways count with tokenizers of their own.
"""

REPLY_TOKENS_FACTOR = 4
"""How many times the caller's limit a request may ask for, unless the policy has another cap."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One call: the contract, the caller's request, and how to go on."""

    contract: Contract
    """What replies are checked against."""
    base: JSONObject
    """The caller's request without the contract, in the form that all wires share."""
    policy: RetryPolicy
    """The budgets of the call."""
    steering: Steering
    """Writes the corrections."""
    unwanted: frozenset[str] = frozenset()
    """What the endpoint is known to refuse of what we add."""
    clients_retries: int | None = None
    """The client's own ``max_retries``; None when unknown."""
    wire: Wire = WIRES["chat"]
    """The API to ask."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A reply that did not fit: its message and its faults."""

    message: JSONObject
    """The message that is judged, with what earlier replies gave spliced in."""
    issues: tuple[Issue, ...]
    """The faults of the message."""
    scope: Scope | None = None
    """What is retried alone when only that is wrong; None for the whole."""
    limit_refused: bool = False
    """Whether the server refused the token limit that we had raised."""
    whole: bool = False
    """Whether one value was requested alone in vain."""
    may_miss: bool = False
    """Whether its stream was stopped where more calls might have followed."""
    words: str = ""
    """What the model wrote."""
    repeats: int = 0
    """How often a bad reply had come twice."""
    is_told: bool = False
    """Whether its text has gone out to the caller."""
    is_bound: bool = False
    """Whether a thought in it, or in the caller's messages, is signed."""
    own: JSONObject = field(default_factory=dict[str, Any])
    """The reply as it came, where ``message`` is the frozen one that it was spliced into."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request to send, and the bad reply that it answers.

    A signed thought is bound to the tools, the system prompt and all messages before it. Once there
    is one, each correction stands behind the last, and nothing before it changes.
    """

    request: JSONObject
    """The request."""
    correction: str | None = None
    """The text of the correction; None in the first request."""
    tier: int = 0
    """How far the correction has escalated, from 1; 0 in the first request."""
    scope: Scope | None = None
    """The part that is retried; None for the whole."""
    raises: int = 0
    """How often the caller's token limit was raised for it."""
    grows: bool = True
    """Whether the token limit may be raised again."""
    answers: Bad | None = None
    """The bad reply; None in the first request."""
    numbers: bool = False
    """Whether an id that is taken was refused before."""
    added: frozenset[str] = frozenset()
    """What the caller did not request."""
    unwanted: frozenset[str] = frozenset()
    """What the endpoint refused of ``added``."""
    escalation: str | None = None
    """The step that was taken last; None when none was."""
    is_bound: bool = False
    """Whether a signed thought binds what stands before it."""
    behind: tuple[Message, ...] = ()
    """The turns behind the caller's messages."""
    prefix: tuple[Message, ...] = ()
    """Those of ``behind`` that the answered reply was made behind."""
    first: JSONObject | None = None
    """The reply to the caller's own messages; None without a signed thought."""

    @property
    def raised(self) -> bool:
        """Whether this request corrects a reply with a token limit above the caller's own."""
        return self.raises > 0 and self.answers is not None

    def refused_by(self, failure: Failure | None, wire: Wire) -> frozenset[str]:
        """Return what of our additions a refusal of the endpoint names.

        Empty when it is about anything else.
        """
        if failure is None or failure.kind not in _REFUSALS or not self.added:
            return frozenset()

        said = json.dumps(failure.error) if failure.error is not None else str(failure.cause)
        words = said.lower().replace("_", " ").replace("-", " ")

        return frozenset(
            name for name in self.added if any(word in words for word in wire.additions[name])
        )


def first_turn(ask: Ask) -> Turn:
    """Make the first request."""
    request, added = dressed(ask.contract, ask.base, ask.unwanted, ask.wire, None)
    return Turn(request, added=added, unwanted=ask.unwanted)


def without(ask: Ask, turn: Turn, refused: frozenset[str]) -> Turn:
    """Make the same request without what the endpoint refused of what we had added."""
    request = {name: value for name, value in turn.request.items() if name not in refused}

    if "response_format" in refused and ask.contract.channel == "native":
        contract = ask.contract
        if turn.scope is not None and ask.policy.scope != "cached" and not turn.is_bound:
            contract = contract_for(contract, turn.scope, ask.base["messages"])

        request["messages"] = instructed(request["messages"], answer_instructions(contract))

    forced = turn.escalation == "forced_tool" and "tool_choice" in refused
    escalation = None if forced or turn.escalation in refused else turn.escalation
    added = turn.added - refused
    unwanted = turn.unwanted | refused

    return replace(turn, request=request, added=added, unwanted=unwanted, escalation=escalation)


def _is_narrow(ask: Ask, bad: Bad) -> bool:
    return not (ask.policy.allow_tool_switch or bad.may_miss)


def next_turn(ask: Ask, turn: Turn, bad: Bad | None, step: Again) -> Turn:
    """Make the request that follows a reply that did not fit; tier 0 repeats the last one."""
    if step.tier == 0 or bad is None:
        return turn

    scope = bad.scope if _is_narrow(ask, bad) else None
    messages = ask.base["messages"]
    raises, grows = _raises(ask, turn, bad)

    if step.words is not None:
        words = [step.words]
    else:
        words = corrections(ask.steering, _situations(ask, bad, step.tier))

    prefix = _prefix(turn, bad)
    message, seen = _replay(turn, bad, scope)
    if seen is None:
        words = ["\n".join(words)]

    taken = ids_in([*messages, *prefix])
    turns = encodable(replayed(ask.contract, message, words, seen, taken, step.words))
    steps = _steps(ask, turn, bad, step.tier)

    behind = (*prefix, *turns)
    base = ask.base | _limits(ask, raises) | {"messages": [*messages, *behind]}
    request, added = _escalated(ask, base, bad, steps, turn.unwanted)
    numbers = turn.numbers or Code.CALL_ID_DUPLICATE.value in {issue.code for issue in bad.issues}

    escalation = None
    if steps:
        escalation = steps[-1] if isinstance(steps[-1], str) else "keywords"

    return Turn(
        request,
        correction="\n".join(words),
        tier=step.tier,
        scope=scope,
        raises=raises,
        grows=grows,
        answers=bad,
        numbers=numbers,
        added=added,
        unwanted=turn.unwanted,
        escalation=escalation,
        is_bound=bad.is_bound,
        behind=behind,
        prefix=prefix,
        first=bad.own if turn.correction is None else turn.first,
    )


def _prefix(turn: Turn, bad: Bad) -> tuple[Message, ...]:
    """Return the turns that stay before the next correction: none unless they are bound."""
    if not (bad.is_bound and turn.is_bound):
        return ()

    # a request that the server refused has no reply: its correction is written once more
    return turn.prefix if bad.limit_refused else turn.behind


def _replay(turn: Turn, bad: Bad, scope: Scope | None) -> tuple[JSONObject, Scope | None]:
    """Return the bad reply as it is replayed, and what of it is retried alone."""
    if not bad.is_bound:
        seen = None if scope is None else shown(scope, with_content=bad.is_told)
        return bad.message if seen is None else seen.message, seen

    if scope is None or bad.own == bad.message:
        return bad.own, scope

    return bad.own, own_scope(turn.scope, scope, bad.own)


def _raises(ask: Ask, turn: Turn, bad: Bad) -> tuple[int, bool]:
    """Return how often the token limit is raised next, and whether it may be raised once more."""
    raises = turn.raises
    if bad.limit_refused:
        # it is taken back, and not raised any more: the reply can only become shorter
        return raises - 1, False

    is_cut = any(issue.remedy is Remedy.SHORTEN for issue in bad.issues)
    may_grow = is_cut and turn.grows and _limits(ask, raises + 1) != _limits(ask, raises)
    return raises + 1 if may_grow else raises, turn.grows


def consult_for(ask: Ask, turn: Turn, bad: Bad | None, step: Again) -> Consult | None:
    """Return whom to ask for the words of a correction; None where they are ours."""
    if bad is None or step.tier == 0 or ask.policy.ask_human is None:
        return None

    steps = _steps(ask, turn, bad, step.tier)
    if not steps or steps[-1] != "human":
        return None

    situations = _situations(ask, bad, step.tier)
    whole = Situation(bad.issues, ask.contract, step.tier, number=step.tier - bad.repeats)
    return Consult(situations[0] if len(situations) == 1 else whole, ask.policy.ask_human)


def _steps(ask: Ask, turn: Turn, bad: Bad, tier: int) -> list[Step]:
    """Return the steps that the policy has in force at a tier, without those of no effect here."""
    contract = ask.contract
    about_answer = any(issue.code.startswith("answer.") for issue in bad.issues)
    in_text = contract.channel == "text"
    alone = bad.is_bound or (bad.scope is not None and _is_narrow(ask, bad))

    format_ = peek(ask.base.get("response_format"), "type")
    answers = None not in (contract.answer.schema, format_) and contract.answer_style == "union"
    forcible = (in_text or "tool_choice" not in turn.unwanted) and contract.choice == "auto"
    unsent = format_ != "json_schema" and "response_format" not in turn.unwanted
    usable = {
        "forced_tool": forcible and bool(contract.tools) and not (about_answer or alone),
        "response_format": (
            unsent and not bad.is_bound and (in_text or (answers and admits_answer(contract)))
        ),
    }

    return steps_in_force(
        ask.policy, ask.base.get("model"), tier, lambda step: usable.get(str(step), True)
    )


def _escalated(
    ask: Ask, base: JSONObject, bad: Bad, steps: list[Step], unwanted: frozenset[str]
) -> tuple[JSONObject, frozenset[str]]:
    contract = ask.contract
    scope = bad.scope if _is_narrow(ask, bad) else None
    cached = ask.policy.scope == "cached"
    if "forced_tool" in steps and scope is None:
        only = bad.scope.only if bad.scope else None
        contract = contract.with_choice(only.tool if only else "required")

    format_: JSONObject = {}
    if "response_format" in steps:
        if contract.channel == "text":
            format_ = {"response_format": {"type": "json_schema"}}
        base = {name: value for name, value in base.items() if name != "response_format"} | format_

    # a model that thinks refuses to be forced, so that the words alone ask for the call
    asked = None if bad.is_bound else scope
    request, added = narrowed(contract, base, asked, unwanted, cached=cached, wire=ask.wire)
    forced = {"tool_choice"} & request.keys() if "forced_tool" in steps else set[str]()
    keywords = _keywords(steps)

    return request | keywords, (added | format_.keys() | forced) - keywords.keys()


def _keywords(steps: list[Step]) -> JSONObject:
    """Return the keywords that the steps send: the model, and the policy's own."""
    keywords: JSONObject = {}
    for step in steps:
        if isinstance(step, str) and step.startswith("model:"):
            keywords["model"] = step.partition(":")[2]

    for step in steps:
        if isinstance(step, Mapping):
            keywords |= step

    return keywords


def _situations(ask: Ask, bad: Bad, tier: int) -> tuple[Situation, ...]:
    """Return what the corrections are about.

    That is each call that is retried, with its own faults, or the reply as a whole.
    """
    issues = bad.issues
    about = bad.scope
    whole = Situation(issues, ask.contract, tier, number=tier - bad.repeats)

    if about is not None and about.part is not None:
        tool = about.only.tool if about.only else None
        return (replace(whole, tool=tool, at=about.at, part=about.place),)

    if about is None or not (about.only or _is_narrow(ask, bad)):
        return (whole,)

    places = [call.at for call in about.calls]
    others = [issue for issue in issues if not any(is_at(issue.path, at) for at in places)]

    situations: list[Situation] = []
    for call in about.calls:
        own = [issue for issue in issues if is_at(issue.path, call.at)]
        situations.append(replace(whole, issues=(*others, *own), tool=call.tool, at=call.at))

    return tuple(situations)


def _limits(ask: Ask, raises: int) -> JSONObject:
    """Return the caller's token limits, doubled ``raises`` times, up to the policy's cap."""
    most = ask.policy.max_reply_tokens

    limits: JSONObject = {}
    for key in ask.wire.limits:
        limit: Any = ask.base.get(key)
        if is_count(limit, 1):
            cap = REPLY_TOKENS_FACTOR * limit if most is None else max(limit, most)
            limits[key] = min(limit << raises, cap)

    return limits


def cut_at_limit(
    contract: Contract,
    message: object,
    request: Mapping[str, Any],
    response: JSON,
    wire: Wire,
) -> Invalid | None:
    """Report a reply that ended at the token limit of its own request, whatever its ending says.

    None for any other reply. Servers relabel cut replies as ``stop`` or ``tool_calls``
    (vllm-project/vllm#58228: 25 of 3,600). At the limit only content that is JSON, closed by its
    last bracket, proves itself whole; a call does not, since the server's parser may close by
    itself what was cut (vllm-project/vllm#46303). Around the limit only JSON that breaks off was
    cut: some servers count something else, such as reasoning (api-docs.deepseek.com: the limit is
    that of the answer alone).
    """
    extra = request.get("extra_body")  # which has the last word, as in the SDK
    sent = {**request, **extra} if isinstance(extra, Mapping) else request

    limits = [limit for key in wire.limits if is_count(limit := sent.get(key), 1)]
    used = Usage.of(response, wire.usage).completion_tokens if limits else 0
    if not limits or used < NEAR_LIMIT * min(limits):
        return None

    text = _json_content(contract, message)
    is_cut = used in limits and not _is_closed(contract, text)
    if is_cut or _breaks_off(contract, peek(message, "tool_calls"), text):
        cut = Issue.of(Code.REPLY_TRUNCATED, "/usage/completion_tokens", found=quote(used))
        return Invalid((cut,))

    return None


def _is_closed(contract: Contract, text: str | None) -> bool:
    """Return whether a text is JSON that ends with its last bracket.

    A number or a word might have gone on.
    """
    if text is None or not text.rstrip().endswith(("}", "]")):
        return False

    return is_json(text, contract.limits)


def _json_content(contract: Contract, message: object) -> str | None:
    """Return the content where it should be JSON, as the contract's leniencies read it.

    None where it need not be.
    """
    content = peek(message, "content")
    if not isinstance(content, str):
        return None

    is_native = contract.channel != "text"
    if is_native and (contract.answer.is_text or peek(message, "tool_calls")):
        return None

    return extract(content, contract.extraction, contract.limits)[0]


def _breaks_off(contract: Contract, calls: object, text: str | None) -> bool:
    """Return whether the JSON of a call, or the ``text`` where there are no calls, is incomplete.

    False for what is refused for its size.
    """
    limits = contract.limits
    texts: list[object] = [text]
    if isinstance(calls, list) and calls:
        texts = [peek(peek(call, "function"), "arguments") for call in calls]

    if len(texts) > limits.calls or sum(map(utf8_size, texts)) > limits.reply_bytes:
        return False

    work = Work()  # one for all texts
    read = [decode(one, limits, work=work) for one in texts if isinstance(one, str) and one]
    faults = [verdict.issues for verdict in read if isinstance(verdict, Invalid)]

    return any(issue.code == Code.JSON_INCOMPLETE.value for issues in faults for issue in issues)
