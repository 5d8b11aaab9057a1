"""The requests of a call: the first one, and the corrections of invalid replies.

A correction has the caller's messages, the last invalid reply and the text of the correction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from strictreply.contract._channels import admits_answer, answer_instructions
from strictreply.contract._contract import Contract
from strictreply.contract._correcting import CorrectionContext, Steering
from strictreply.reading._decoding import decode, extract, is_json
from strictreply.retry._constraining import (
    CONSTRAINED_CALL,
    FORCED_TOOL,
    RESPONSE_FORMAT,
    add_union,
    can_be_answered,
    is_broken_call,
    is_cut_prose,
    is_lost_call,
    is_missing_call,
    is_of_grammar,
    written_as_text,
)
from strictreply.retry._failures import Failure
from strictreply.retry._policy import Again, Consult, RetryPolicy, Step, steps_in_force
from strictreply.retry._replaying import encodable, replayed
from strictreply.retry._restoring import as_sent
from strictreply.retry._scoping import Scope, own_scope, shown
from strictreply.retry._shaping import contract_for, demanding, has_schema, narrowed
from strictreply.retry._steering import corrections, is_at
from strictreply.values._drafts import Draft
from strictreply.values._issues import Code, Issue, Remedy, quote
from strictreply.values._limits import JSON, JSONObject, Message, Work, is_count, utf8_size
from strictreply.values._replies import Invalid, Usage
from strictreply.values._requests import CHOICE, FORMAT, STRICT, AnswerFormat, Request
from strictreply.wires import WIRES
from strictreply.wires._wire import Replay, Wire

# OpenRouter returns 404 if no provider accepts a ``tool_choice``, llama.cpp has returned 500
_REFUSALS = frozenset({"invalid_request", "not_found", "api_error", "server_error"})

NEAR_LIMIT = 0.9
"""The share of the token limit from which incomplete JSON counts as cut off.

It is below 1, because gateways count with other tokenizers.
"""

REPLY_TOKENS_FACTOR = 4
"""How far a request may exceed the caller's token limit, unless the policy has its own cap."""

MAX_SAID_AGAIN = 2_000
"""The longest user's turn, in characters, that is repeated after a correction."""

_WITH_SCHEMA = frozenset({RESPONSE_FORMAT, CONSTRAINED_CALL})
_CONSTRAINED_BY = {FORCED_TOOL: CHOICE, RESPONSE_FORMAT: FORMAT, CONSTRAINED_CALL: FORMAT}
_NO_REPLY = Draft()


@dataclass(frozen=True, slots=True)
class CallPlan:
    """Everything that one call needs: contract, request, policy and API."""

    contract: Contract
    """The contract that replies are checked against."""
    base: Request
    """The caller's request, without the demands of the contract."""
    policy: RetryPolicy
    """The retry policy of the call."""
    steering: Steering
    """Writes the corrections."""
    unwanted: frozenset[str] = frozenset()
    """The additions of strictreply that the endpoint is known to reject."""
    clients_retries: int | None = None
    """The client's own ``max_retries``; None if unknown."""
    wire: Wire = WIRES["chat"]
    """The API of the request."""
    enforced: frozenset[str] | None = None
    """The tools whose faults are enforced; None for all, empty if replies are only observed."""
    own_request: Request | None = None
    """The caller's request without additions, if it is sent first; None to add the contract."""
    unheld: frozenset[str] = frozenset()
    """The additions that the endpoint is known to accept and then ignore."""

    @property
    def mode(self) -> str:
        """``enforce``, ``observe``, or ``partial`` if only some tools are enforced."""
        if self.enforced is None:
            return "enforce"
        return "partial" if self.enforced else "observe"


@dataclass(frozen=True, slots=True)
class BadReply:
    """An invalid reply, and its faults."""

    draft: Draft
    """The reply that is judged, with the valid parts of earlier replies merged in."""
    issues: tuple[Issue, ...]
    """The faults of the reply."""
    scope: Scope | None = None
    """The part that can be retried by itself; None for the whole reply."""
    limit_refused: bool = False
    """Whether the server rejected a token limit that strictreply had raised."""
    whole: bool = False
    """Whether an earlier request for a single value failed."""
    may_miss: bool = False
    """Whether its stream was stopped early, before possible further calls."""
    words: str = ""
    """What the model wrote."""
    repeats: int = 0
    """How often the model has repeated an invalid reply."""
    is_told: bool = False
    """Whether its text has reached the caller."""
    is_bound: bool = False
    """Whether it or the caller's messages contain a signed thought."""
    own: Draft = _NO_REPLY
    """The model's own reply, if it was merged into ``draft``."""
    constraints: tuple[str, ...] = ()
    """The steps that constrain the reply to its correction, at any tier."""


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """The caller's own request, with the demands of the contract."""

    request: Request
    """The request."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A request that corrects an invalid reply.

    A signed thought is bound to the tools, the system prompt and all messages before it. As soon as
    there is one, each correction follows the last one, and nothing before it changes.
    """

    request: Request
    """The request."""
    text: str
    """The text of the correction."""
    tier: int
    """How far the correction has escalated, from 1."""
    scope: Scope | None
    """The part that is retried; None for the whole reply."""
    answers: BadReply
    """The invalid reply."""
    first: Draft
    """The reply to the caller's own messages."""
    raises: int = 0
    """How often the caller's token limit was raised for it."""
    grows: bool = True
    """Whether the token limit may be raised again."""
    numbers: bool = False
    """Whether a call was rejected before because its id was already taken."""
    escalation: str | None = None
    """The step that was applied last; None if none was."""
    prefix: tuple[Message, ...] = ()
    """The turns between the caller's messages and the invalid reply."""
    demanded: Contract | None = None
    """The contract of a call that is requested as a constrained answer; None if there is none."""
    instead: Correction | None = None
    """The correction to send if the endpoint rejects this one for its schema; else None."""


Asked: TypeAlias = FirstRequest | Correction
"""A request, and what it is for."""


@dataclass(frozen=True, slots=True)
class Resend:
    """The same request again, because there is no reply to correct."""

    of: Asked
    """The request, and what it is for."""
    refused: frozenset[str] = frozenset()
    """The additions that the endpoint rejected, now left out; empty after a failed call."""


Turn: TypeAlias = Asked | Resend
"""The next request, and why it is sent."""


def refused_by(ask: CallPlan, request: Request, failure: Failure | None) -> frozenset[str]:
    """Return the additions to a request that the endpoint's error names; empty if none.

    A format that was rejected in its strict form is sent again as declared, if the API accepts
    that.
    """
    if failure is None or failure.kind not in _REFUSALS or not request.added:
        return frozenset()

    said = json.dumps(failure.error) if failure.error is not None else str(failure.cause)
    words = said.lower().replace("_", " ").replace("-", " ")

    # if no words are known for an API, it is assumed to reject none
    words_of = ask.wire.additions
    known = {name: words_of.get(name.partition(":")[0], ()) for name in request.added}
    found = frozenset(name for name in known if any(word in words for word in known[name]))
    is_form = any(name.startswith(STRICT) for name in found)
    return found - {FORMAT} if is_form and ask.contract.provider != "anthropic" else found


def first_turn(ask: CallPlan) -> FirstRequest:
    """Return the first request."""
    if ask.own_request is not None:
        return FirstRequest(ask.own_request)

    return FirstRequest(demanding(ask.contract, ask.base, ask.unwanted))


def constraint_refused(turn: Asked, failure: Failure | None) -> frozenset[str]:
    """Return the constraints of a correction that the endpoint rejected without naming a reason.

    It must be the constraint, because the conversation itself was accepted before.
    """
    is_refusal = failure is not None and failure.kind == "invalid_request"
    if not is_refusal or not isinstance(turn, Correction):
        return frozenset()

    names = {_CONSTRAINED_BY[step] for step in turn.answers.constraints}
    return turn.request.added & names


def without(ask: CallPlan, turn: Asked, refused: frozenset[str]) -> Resend:
    """Return the same request without the additions that the endpoint rejected."""
    request = turn.request.without(refused)
    correction = turn if isinstance(turn, Correction) else None
    if correction is not None and correction.instead is not None and FORMAT in refused:
        return Resend(correction.instead, refused)

    if FORMAT in refused and ask.contract.channel == "native":
        contract = ask.contract
        scope = None if correction is None or correction.answers.is_bound else correction.scope
        if scope is not None and not ask.policy.keep_prompt_cache:
            has_calls = bool(ask.wire.replay.ids(ask.base.conversation))
            contract = contract_for(contract, scope, has_calls=has_calls)

        request = replace(request, instructions=answer_instructions(contract))

    if correction is None:
        return Resend(FirstRequest(request), refused)

    forced = correction.escalation == FORCED_TOOL and CHOICE in refused
    is_without_step = forced or correction.escalation in refused
    escalation = None if is_without_step else correction.escalation

    return Resend(replace(correction, request=request, escalation=escalation), refused)


def _is_narrow(ask: CallPlan, bad: BadReply) -> bool:
    return not (ask.policy.allow_other_tool or bad.may_miss)


def next_turn(ask: CallPlan, turn: Asked, bad: BadReply | None, step: Again) -> Turn:
    """Return the request after an invalid reply; tier 0 repeats the last request."""
    if step.tier == 0 or bad is None:
        return Resend(turn)

    return correction_for(ask, turn, bad, step)


def correction_for(ask: CallPlan, turn: Asked, bad: BadReply, step: Again) -> Correction:
    """Return the request that corrects an invalid reply."""
    before = turn if isinstance(turn, Correction) else None
    scope = bad.scope if _is_narrow(ask, bad) else None
    raises, grows = _raises(ask, before, bad)
    steps = _steps(ask, bad, step.tier)

    demanded = None
    instead = None
    shown_by = ask
    if CONSTRAINED_CALL in steps:
        demanded = _forced(ask, bad, steps)
        # the correction describes the requested form
        shown_by = replace(ask, contract=demanded.replace(channel="text"))

    if demanded is not None or RESPONSE_FORMAT in bad.constraints:
        plain = replace(ask, unwanted=ask.unwanted | {FORMAT})
        instead = correction_for(plain, turn, replace(bad, constraints=()), step)

    if step.words is not None:
        words = [step.words]
    else:
        words = corrections(ask.steering, _contexts(shown_by, bad, step.tier))

    prefix = _prefix(before, bad)
    limits = {**ask.base.limits, **_limits(ask, raises)}
    said = "" if step.words is not None else _said_again(ask, bad, scope)
    turns = _turns(shown_by, turn, bad, [said] if said else words, step.words)
    base = replace(ask.base, limits=limits, behind=(*prefix, *turns))
    request = _escalated(ask, base, bad, steps)
    if said:
        request = replace(request, instructions="\n\n".join([request.instructions, *words]))

    escalation = None
    if steps:
        escalation = steps[-1] if isinstance(steps[-1], str) else "keywords"

    refuses_id = Code.CALL_ID_DUPLICATE.value in {issue.code for issue in bad.issues}
    return Correction(
        request,
        text="\n".join(words),
        tier=step.tier,
        scope=scope,
        answers=bad,
        first=bad.own if before is None else before.first,
        raises=raises,
        grows=grows,
        numbers=refuses_id or (before is not None and before.numbers),
        escalation=escalation,
        prefix=prefix,
        demanded=demanded,
        instead=instead,
    )


def _turns(
    ask: CallPlan, turn: Asked, bad: BadReply, words: list[str], human: str | None
) -> list[Message]:
    """Return the invalid reply as the assistant's turn, followed by the turns that correct it."""
    before = turn if isinstance(turn, Correction) else None
    asked = turn.request
    scope = bad.scope if _is_narrow(ask, bad) else None
    draft, seen = _replay(ask.wire.replay, before, bad, scope)
    if ask.contract.channel == "text":
        draft = written_as_text(draft)
    elif asked.is_strict and not bad.is_bound:
        draft = as_sent(ask.contract, asked, draft)
    if seen is None:
        words = ["\n".join(words)]

    taken = ask.wire.replay.ids([*ask.base.conversation, *_prefix(before, bad)])
    return encodable(
        replayed(ask.contract, draft, words, seen, taken, human, replay=ask.wire.replay)
    )


def _said_again(ask: CallPlan, bad: BadReply, scope: Scope | None) -> str:
    """Return the user's last message, if it must be repeated because decoding is constrained.

    A weak model answers the last turn. If that were the correction, it would answer the correction
    in any form that fits. So the user's message comes last, and the correction is added to the
    instructions. Empty if nothing is repeated.
    """
    is_held = not _WITH_SCHEMA.isdisjoint(bad.constraints)
    is_whole = scope is None or CONSTRAINED_CALL in bad.constraints
    last = ask.base.conversation[-1] if ask.base.conversation else None
    if not is_held or not is_whole or not isinstance(last, Mapping):
        return ""

    replay = ask.wire.replay
    turn: Message = dict(last)
    said = replay.heard(turn).text
    return said if turn == replay.user(said) and len(said) <= MAX_SAID_AGAIN else ""


def _prefix(before: Correction | None, bad: BadReply) -> tuple[Message, ...]:
    """Return the turns that must stay before the next correction: none unless they are bound."""
    if before is None or not before.answers.is_bound:
        return ()

    # a rejected request has no reply: its correction is written again
    return before.prefix if bad.limit_refused else before.request.behind


def _replay(
    replay: Replay, before: Correction | None, bad: BadReply, scope: Scope | None
) -> tuple[Draft, Scope | None]:
    """Return the invalid reply in the form that is replayed, and the part that is retried."""
    if not bad.is_bound:
        seen = None if scope is None else shown(scope, replay, with_text=bad.is_told)
        return bad.draft if seen is None else seen.draft, seen

    if scope is None or bad.own == bad.draft:
        return bad.own, scope

    return bad.own, own_scope(None if before is None else before.scope, scope, bad.own)


def _raises(ask: CallPlan, before: Correction | None, bad: BadReply) -> tuple[int, bool]:
    """Return how often the token limit is raised next, and whether it may be raised again."""
    raises = 0 if before is None else before.raises
    grows = before is None or before.grows
    if bad.limit_refused:
        # the last raise is undone, and no other follows: only the reply can become shorter
        return raises - 1, False

    is_cut = any(issue.remedy is Remedy.SHORTEN for issue in bad.issues)
    may_grow = is_cut and grows and _limits(ask, raises + 1) != _limits(ask, raises)
    return raises + 1 if may_grow else raises, grows


def consult_for(ask: CallPlan, bad: BadReply | None, step: Again) -> Consult | None:
    """Return the effect that asks a human for a correction; None if the steering writes it."""
    if bad is None or step.tier == 0 or ask.policy.ask_human is None:
        return None

    steps = _steps(ask, bad, step.tier)
    if not steps or steps[-1] != "human":
        return None

    contexts = _contexts(ask, bad, step.tier)
    whole = CorrectionContext(bad.issues, ask.contract, step.tier, number=step.tier - bad.repeats)
    return Consult(contexts[0] if len(contexts) == 1 else whole, ask.policy.ask_human)


def _steps(ask: CallPlan, bad: BadReply, tier: int) -> list[Step]:
    """Return the steps in force at a tier, without those that have no effect here."""
    usable = _usable(ask, bad)
    early = bad.constraints
    later = steps_in_force(
        ask.policy,
        ask.base.model,
        tier,
        lambda step: usable.get(str(step), True) and step not in early,
    )
    return [*early, *later]


def _usable(ask: CallPlan, bad: BadReply) -> dict[str, bool]:
    """Return which of the constraining steps have an effect here."""
    contract = ask.contract
    about_answer = any(issue.code.startswith("answer.") for issue in bad.issues)
    in_text = contract.channel == "text"
    alone = bad.is_bound or (bad.scope is not None and _is_narrow(ask, bad))

    has_format = ask.base.format is not None
    has_answer = has_format and contract.answer.schema is not None
    answers = has_answer and contract.answer_style == "union"
    forcible = (in_text or CHOICE not in ask.unwanted) and contract.choice == "auto"
    unsent = not has_schema(ask.base) and FORMAT not in ask.unwanted and not bad.is_bound

    scope = bad.scope if _is_narrow(ask, bad) else None
    is_whole = scope is None or (scope.only is not None and scope.part is None)
    return {
        FORCED_TOOL: forcible and bool(contract.tools) and not (about_answer or alone),
        RESPONSE_FORMAT: unsent and (in_text or (answers and admits_answer(contract))),
        CONSTRAINED_CALL: (
            unsent and not in_text and is_whole and can_be_answered(contract, ask.base)
        ),
    }


def constraints_of(ask: CallPlan, before: tuple[str, ...], bad: BadReply) -> tuple[str, ...]:
    """Return the steps that constrain the reply to the next correction.

    ``before`` are the steps in force so far: they stay, unless the server ignores them.
    """
    if not ask.policy.constrain_retries or bad.is_bound:
        return ()

    usable = _usable(ask, bad)
    may_format = not ask.policy.keep_prompt_cache and FORMAT not in ask.unheld
    formats = may_format and ask.base.format is None

    if ask.contract.channel == "text":
        is_broken = is_of_grammar(bad.issues) or is_cut_prose(bad.issues, bad.own)
        is_due = RESPONSE_FORMAT in before or is_broken
        return (RESPONSE_FORMAT,) if is_due and formats and usable[RESPONSE_FORMAT] else ()

    is_forced = usable[FORCED_TOOL] and CHOICE not in ask.unheld
    if is_forced and (FORCED_TOOL in before or is_broken_call(bad.issues)):
        return (FORCED_TOOL,)

    # text that reached the caller stays in the reply, so an answer cannot replace the call
    is_lost = is_lost_call(bad.issues) and not bad.is_told
    is_no_call = is_missing_call(ask.contract, bad.issues, bad.own)
    is_due = CONSTRAINED_CALL in before or is_lost or is_no_call
    return (CONSTRAINED_CALL,) if is_due and formats and usable[CONSTRAINED_CALL] else ()


def _forced(ask: CallPlan, bad: BadReply, steps: list[Step]) -> Contract:
    """Return the contract of a correction: the calls of its scope only, or a forced call."""
    contract = ask.contract
    scope = bad.scope if _is_narrow(ask, bad) else None
    if CONSTRAINED_CALL in steps and scope is not None:
        return contract_for(contract, scope, has_calls=False)

    if FORCED_TOOL in steps and scope is None:
        only = bad.scope.only if bad.scope else None
        return contract.with_choice(only.tool if only else "required")

    return contract


def _escalated(ask: CallPlan, base: Request, bad: BadReply, steps: list[Step]) -> Request:
    contract = _forced(ask, bad, steps)
    scope = bad.scope if _is_narrow(ask, bad) else None
    keeps_cache = ask.policy.keep_prompt_cache

    ours = set[str]()
    if RESPONSE_FORMAT in steps and CONSTRAINED_CALL not in steps:
        base = replace(base, format=None)
        if contract.channel == "text":
            base = replace(base, format=AnswerFormat("json_schema"))
            ours.add(FORMAT)

    # a thinking model cannot be forced, so only the text of the correction requests the call
    asked = None if bad.is_bound else scope
    has_calls = bool(ask.wire.replay.ids(base.turns))
    if CONSTRAINED_CALL in steps:
        request = add_union(contract, base, ask.contract, ask.unwanted, has_calls=has_calls)
    else:
        request = narrowed(
            contract, base, asked, ask.unwanted, keeps_cache=keeps_cache, has_calls=has_calls
        )

    if FORCED_TOOL in steps and request.choice is not None:
        ours.add(CHOICE)

    keywords = _keywords(steps)
    added = request.added.union(ours).difference(keywords)
    model = keywords.get("model", request.model)
    return replace(request, model=model, keywords=keywords, added=added)


def _keywords(steps: list[Step]) -> JSONObject:
    """Return the keywords of the steps: the model, and the policy's own keywords."""
    keywords: JSONObject = {}
    for step in steps:
        if isinstance(step, str) and step.startswith("model:"):
            keywords["model"] = step.partition(":")[2]

    for step in steps:
        if isinstance(step, Mapping):
            keywords |= step

    return keywords


def _contexts(ask: CallPlan, bad: BadReply, tier: int) -> tuple[CorrectionContext, ...]:
    """Return the contexts of the corrections: one for each retried call, or one for the reply."""
    issues = bad.issues
    about = bad.scope
    sent = ask.contract.sent
    is_refused = sent is not None and sent.name in ask.unwanted
    contract = ask.contract.sent_to(None) if is_refused else ask.contract
    whole = CorrectionContext(issues, contract, tier, number=tier - bad.repeats)

    if about is not None and about.part is not None:
        tool = about.only.tool if about.only else None
        return (replace(whole, tool=tool, at=about.at, part=about.place),)

    if about is None or not (about.only or _is_narrow(ask, bad)):
        return (whole,)

    places = [call.at for call in about.calls]
    others = [issue for issue in issues if not any(is_at(issue.path, at) for at in places)]

    contexts: list[CorrectionContext] = []
    for call in about.calls:
        own = [issue for issue in issues if is_at(issue.path, call.at)]
        contexts.append(replace(whole, issues=(*others, *own), tool=call.tool, at=call.at))

    return tuple(contexts)


def _limits(ask: CallPlan, raises: int) -> JSONObject:
    """Return the caller's token limits, doubled ``raises`` times, up to the policy's cap."""
    most = ask.policy.max_reply_tokens

    limits: JSONObject = {}
    for key, limit in ask.base.limits.items():
        if isinstance(limit, int) and is_count(limit, 1):
            cap = REPLY_TOKENS_FACTOR * limit if most is None else max(limit, most)
            limits[key] = min(limit << raises, cap)

    return limits


def cut_at_limit(
    contract: Contract,
    draft: Draft,
    sent: JSONObject,
    response: JSON,
    wire: Wire,
) -> Invalid | None:
    """Return the verdict for a reply that was cut off at its token limit; None for any other.

    ``sent`` is the body of the request. The finish reason is not trusted: servers relabel cut
    replies as ``stop`` or ``tool_calls`` (vllm-project/vllm#58228: 25 of 3,600).

    Exactly at the limit, only content that is JSON and ends with its last bracket is complete. A
    call may still be cut, because a server's parser may close it itself (vllm-project/vllm#46303).
    Near the limit, only incomplete JSON is cut, because some servers count other tokens, such as
    reasoning (api-docs.deepseek.com: the limit applies only to the answer).
    """
    limits = [limit for limit in wire.limits(sent) if is_count(limit, 1)]
    used = Usage.of(response, wire.usage).completion_tokens if limits else 0
    if not limits or used < NEAR_LIMIT * min(limits):
        return None

    text = _json_text(contract, draft)
    is_cut = used in limits and not _is_closed(contract, text)
    if is_cut or _breaks_off(contract, draft, text):
        cut = Issue.of(Code.REPLY_TRUNCATED, "/usage/completion_tokens", found=quote(used))
        return Invalid((cut,))

    return None


def _is_closed(contract: Contract, text: str | None) -> bool:
    """Return whether a text is JSON that ends with a bracket; a number could be incomplete."""
    if text is None or not text.rstrip().endswith(("}", "]")):
        return False

    return is_json(text, contract.limits)


def _json_text(contract: Contract, draft: Draft) -> str | None:
    """Return the JSON text of the content, after the contract's extraction; None if not needed."""
    if draft.text is None or draft.other is not None:
        return None

    is_native = contract.channel != "text"
    if is_native and (contract.answer.is_text or draft.calls):
        return None

    return extract(draft.text, contract.extraction, contract.limits)[0]


def _breaks_off(contract: Contract, draft: Draft, text: str | None) -> bool:
    """Return whether the JSON of a call, or of the ``text`` if there are no calls, is incomplete.

    False if it is rejected for its size.
    """
    limits = contract.limits
    texts: list[object] = [text]
    if draft.calls:
        texts = [call.arguments for call in draft.calls if not call.is_text]

    if len(texts) > limits.calls or sum(map(utf8_size, texts)) > limits.reply_bytes:
        return False

    work = Work()  # one for all texts
    read = [decode(one, limits, work=work) for one in texts if isinstance(one, str) and one]
    faults = [verdict.issues for verdict in read if isinstance(verdict, Invalid)]

    return any(issue.code == Code.JSON_INCOMPLETE.value for issues in faults for issue in issues)
