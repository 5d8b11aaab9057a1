"""A model that fails the way real models do and mends what it is told: a pure function from request to response.

The seed and the conversation decide everything; there is no state, no clock and no I/O here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from strictreply.schema import Schema
from strictreply.testing._demo.conversation import Reading, answered_reply, first_ask, text_of
from strictreply.testing._demo.demands import FINAL_ANSWER, Demands, read_demands
from strictreply.testing._demo.drafts import Draft, Target
from strictreply.testing._demo.faults import Fault, draw
from strictreply.testing._demo.mending import mend, names_a_place, nearest
from strictreply.testing._demo.scenario import Question, RightCall, Scenario
from strictreply.testing._wire import HTTPReply, completion, error_reply
from strictreply.values._json import JSON, JSONObject

DEFAULT_FAILURE_RATE = 0.6
RELAPSE_RATE = 0.15
DEFAULT_MAX_TOKENS = 256
"""Where a reply is cut when the request sets no limit; with more room than this nothing is cut."""

CHARS_PER_TOKEN = 4
MAX_QUOTED_RESULT = 500
_UNKNOWN_QUESTION = "I know only the demo's questions; this is a plain answer to another."


@dataclass(frozen=True, slots=True)
class _Mistake:
    """A fault and the draft that has it."""

    fault: Fault
    draft: Draft


class UnreliableModel:
    """Answers chat completions about a scenario, wrongly at first as often as ``failure_rate`` says.

    A correction mends exactly the faults it names; one that names none changes nothing. About one mended reply in
    seven comes back with another fault, and the scenario's hopeless questions are never mended. ``failure_rate`` is
    the share of first replies that are faulty, from 0 (never, not even a hopeless one) to 1; plain text answers have
    nothing to get wrong. The same seed and conversation give the same response.

    A question that the scenario does not hold is answered by a call of the first tool with example arguments, or by
    plain text when there is no tool. Raises ValueError when ``failure_rate`` is not between 0 and 1.
    """

    def __init__(self, scenario: Scenario, *, seed: int = 0, failure_rate: float = DEFAULT_FAILURE_RATE) -> None:
        """Learn the scenario."""
        if not 0 <= failure_rate <= 1:
            raise ValueError("failure_rate must be between 0 and 1")
        self._scenario = scenario
        self._documents = scenario.documents()
        self._seed = seed
        self._failure_rate = failure_rate

    def __call__(self, request: JSONObject) -> JSONObject | HTTPReply:
        """Answer the body of one request; a 400 when its tools or schemas are none."""
        try:
            demands = read_demands(request, self._documents)
            drafts = self._reply(request["messages"], demands)
        except ValueError as error:
            return error_reply(400, str(error))
        return self._completion(request, demands, drafts)

    def _reply(self, turns: Sequence[JSONObject], demands: Demands) -> list[Draft]:
        """Decide what the conversation is at, and write the reply."""
        back = answered_reply(turns)
        if back is None or self._scenario.question(text_of(turns[-1])) is not None:
            return self._first_drafts(first_ask(turns), demands)
        targets = self._targets(back, demands)
        if self._is_corrected(back, targets):
            return self._mended_drafts(back, targets, demands)
        if targets[0].place == "union" and targets[0].tool and targets[0].is_met_by(back.prior[0]):
            return self._first_drafts(replace(back, key=back.said, results=(*back.results, back.said)), demands)
        return self._first_drafts(first_ask(turns), demands)

    def _is_corrected(self, back: Reading, targets: Sequence[Target]) -> bool:
        """Tell whether the remarks are about a fault: they name a place, or the reply was a mistake of its own."""
        wrong = {draft for draft in back.prior if not any(target.is_met_by(draft) for target in targets)}
        if not wrong:
            return False
        own = {mistake.draft for target in targets for mistake in self._mistakes(back, target)}
        return names_a_place(back.said) or not wrong.isdisjoint(own)

    def _first_drafts(self, reading: Reading, demands: Demands) -> list[Draft]:
        """Write a first reply: faulty in one of its calls, or as it should be."""
        targets = self._targets(reading, demands)
        targets = targets if demands.parallel else targets[:1]
        drafts = [target.clean for target in targets]
        rng = self._rng("fails", reading.key)
        failing = rng.random() < self._failure_rate or (self._failure_rate > 0 and self._is_hopeless(reading))
        victim = rng.randrange(len(targets))
        mistakes = self._mistakes(reading, targets[victim]) if failing else []
        if not mistakes or (mistakes[0].draft.cut and (demands.max_tokens or 0) > DEFAULT_MAX_TOKENS):
            return drafts
        return [*drafts[:victim], mistakes[0].draft, *([] if mistakes[0].draft.cut else drafts[victim + 1 :])]

    def _mended_drafts(self, back: Reading, targets: Sequence[Target], demands: Demands) -> list[Draft]:
        """Write the reply again, mended as told; only the faulty call when one tool is demanded."""
        by_index = dict(enumerate(targets))
        drafts: list[Draft] = []
        chosen = 0
        for index, (draft, remark) in enumerate(zip(back.prior, back.remarks, strict=True)):
            target = targets[index] if len(back.prior) == len(targets) else targets[nearest(draft, by_index)]
            if draft.tool == demands.choice and not target.is_met_by(draft):
                chosen = index
            drafts.append(self._mended(back, draft, target, remark, index))
        return drafts if demands.choice in {"auto", "required", "none"} else [drafts[chosen]]

    def _mended(self, back: Reading, draft: Draft, target: Target, remark: str, index: int) -> Draft:
        """Mend one draft; some corrections cost another fault, and hopeless questions are never mended."""
        if self._is_hopeless(back) and self._failure_rate > 0:
            return draft
        mended = mend(draft, target, remark, index)
        mistakes = self._mistakes(back, target)
        relapses = self._rng("relapses", back.key).random() < RELAPSE_RATE
        if relapses and mended != draft and len(mistakes) > 1 and draft == mistakes[0].draft:
            return mistakes[1].draft
        return mended

    def _mistakes(self, reading: Reading, target: Target) -> list[_Mistake]:
        """Give the mistakes that this step of the conversation is prone to: the first, then one after a relapse."""
        rng = self._rng("mistakes", reading.key, target.clean.text)
        first = draw(target, rng, values_only=self._is_hopeless(reading))
        second = draw(target, rng, avoid={first[0], Fault.CUT}, values_only=True) if first else None
        return [_Mistake(*drawn) for drawn in (first, second) if drawn]

    def _targets(self, reading: Reading, demands: Demands) -> list[Target]:
        """Decide what is right to say: calls, or an answer; never nothing."""
        question = self._scenario.question(reading.question)
        if demands.choice == "none":
            return [_answer(reading, question, demands)]
        left = question.calls[len(reading.results) :] if question else ()
        calls = [call for call in left if call.tool in demands.tools and demands.choice in {*_CHOICES, call.tool}]
        if not calls and _must_call(reading, question, demands):
            name = demands.choice if demands.choice in demands.tools else next(iter(demands.tools))
            calls = [RightCall(name, _example(demands.tools[name]))]
        if calls:
            return [Target(c.tool, c.args, _compiled(demands.tools[c.tool]), demands.place) for c in calls]
        return [_answer(reading, question, demands)]

    def _is_hopeless(self, reading: Reading) -> bool:
        """Tell whether the question is one that is never replied to well."""
        question = self._scenario.question(reading.question)
        return question is not None and question.hopeless

    def _rng(self, *parts: str) -> random.Random:
        """Make the dice of one decision."""
        return random.Random(json.dumps([self._seed, *parts]))

    def _completion(self, request: JSONObject, demands: Demands, drafts: Sequence[Draft]) -> JSONObject:
        """Spell the drafts as a chat completion."""
        rng = self._rng("ids", json.dumps(request["messages"]))
        id_ = f"chatcmpl-{rng.getrandbits(96):024x}"
        message: JSONObject = {"role": "assistant", "content": None, "refusal": None}
        if drafts[0].tool:
            message["tool_calls"] = [_spelled(draft, f"call_{rng.getrandbits(96):024x}") for draft in drafts]
        else:
            message["content"] = drafts[0].text
        prompt = _tokens(json.dumps([request["messages"], request.get("tools", [])]))
        if any(draft.cut for draft in drafts):
            usage, reason = (prompt, demands.max_tokens or DEFAULT_MAX_TOKENS), "length"
        else:
            usage, reason = (prompt, _tokens(json.dumps(message))), "tool_calls" if drafts[0].tool else "stop"
        return completion(message, id=id_, model=str(request.get("model", "")), finish_reason=reason, usage=usage)


_CHOICES = ("auto", "required")


def _must_call(reading: Reading, question: Question | None, demands: Demands) -> bool:
    """Tell whether a tool is called although the question has no call of its own left."""
    if not demands.tools or FINAL_ANSWER in demands.tools:
        return demands.choice in demands.tools and demands.choice != FINAL_ANSWER
    stranger = question is None or (question.calls and not any(call.tool in demands.tools for call in question.calls))
    return demands.choice != "auto" or (bool(stranger) and not reading.results)


def _answer(reading: Reading, question: Question | None, demands: Demands) -> Target:
    """Decide on an answer: by the results, the scenario, or in general; as text or as JSON."""
    text = (question.answer if question else "") or _UNKNOWN_QUESTION
    if reading.results:
        text = f"Here is what I found: {'; '.join(reading.results)[:MAX_QUOTED_RESULT]}"
    if FINAL_ANSWER in demands.tools and demands.choice != "none":
        return Target(FINAL_ANSWER, {"answer": text}, _compiled(demands.tools[FINAL_ANSWER]), demands.place)
    if demands.answer is None:
        return Target("", text, None, "union" if demands.place == "union" else "prose")
    schema = _compiled(demands.answer)
    known = question.structured.get(demands.answer_name) if question else None
    value = known if known is not None and not schema.check(known) else schema.example()
    return Target("", value, schema, "union" if demands.place == "union" else "json")


def _compiled(document: JSON) -> Schema:
    """Compile a schema that the request holds; ContractError, a ValueError, when it is none."""
    return _compiled_text(json.dumps(document))


@lru_cache(maxsize=64)
def _compiled_text(text: str) -> Schema:
    """Compile a schema once: the same ones come with every request."""
    return Schema.compile(json.loads(text))


def _example(parameters: JSON) -> JSONObject:
    """Make arguments for a tool that the scenario does not know."""
    example = _compiled(parameters).example()
    return example if isinstance(example, dict) else {}


def _tokens(text: str) -> int:
    """Estimate the tokens of a text, at least one."""
    return max(1, len(text) // CHARS_PER_TOKEN)


def _spelled(draft: Draft, id_: str) -> JSONObject:
    """Spell one native call."""
    return {"id": id_, "type": "function", "function": {"name": draft.tool, "arguments": draft.text}}
