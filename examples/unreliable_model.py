"""A model that fails as real models do, and fixes the faults in corrections.

It is a pure function of the seed and the request, without state, clock or
I/O. Its faults are those of the catalogue. ``python unreliable_model.py``
serves it on loopback, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import unreliable_corrections as corrections
from shop_scenario import SCENARIO, Question, Scenario
from unreliable_corrections import (
    ConversationState,
    Draft,
    clean_draft,
    fields,
    first_ask,
    is_met_by,
    items,
)

from strictreply import Tool, ToolCall
from strictreply.core import JSON, JSONObject
from strictreply.core.forms import SHAPING
from strictreply.testing import (
    HTTPReply,
    Kind,
    LoopbackServer,
    ReplyPlace,
    assistant,
    completion,
    error_reply,
    native_call,
)
from strictreply.testing._scripts import Demand, text_of
from strictreply.testing._steps import Target
from strictreply.testing.faults import CATALOGUE

DEFAULT_FAILURE_RATE = 0.6
RELAPSE_RATE = 0.15
# cuts replies here if the request has no limit; a larger limit cuts nothing
DEFAULT_MAX_TOKENS = 256
CHARS_PER_TOKEN = 4
MAX_QUOTED_RESULT = 500
MAX_REMEMBERED = 512
FINAL_ANSWER = "final_answer"
CUT = "cut_at_length"
_IN_CALLS: dict[str, float] = {
    "commentary_key": 24,
    "number_as_text": 15,
    "boolean_as_text": 2,
    "missing_required": 14,
    "null_for_optional": 10,
    "array_for_scalar": 8,
    "array_as_comma_list": 1,
    "enum_in_other_case": 5,
    "tool_in_other_case": 5.2,
    "near_miss_tool": 5.2,
    "leaked_token_in_tool": 2.6,
    "python_repr": 2.5,
    "extra_closing_bracket": 1,
    CUT: 3.5,
}
_IN_CONTENT: dict[str, float] = {
    "number_as_text": 50,
    "boolean_as_text": 2,
    "fenced": 20,
    "prose_before": 14,
    "python_repr": 4.5,
    "extra_closing_bracket": 1.5,
    CUT: 4.5,
}
SHARES: Mapping[str, Mapping[str, float]] = {
    "call": _IN_CALLS,
    "content": _IN_CONTENT,
}
"""Weights of the catalogue's faults in native calls, and in JSON as content.

Faults that cannot be made are left out.

The weights were counted in recorded replies of some 160 models. Of failed
native calls, 79 % are wrong only in the arguments, 13 % name an unknown tool,
and 7 % are not JSON or cut. Of failed JSON as content, 52 % have scalars as
strings, 34 % have a fence or prose around valid JSON, 6 % are not JSON, and
4.5 % are cut.
"""

_UNKNOWN_QUESTION = (
    "I know only the shop's questions; this is a plain answer to another."
)
_PAYLOAD = re.compile(
    r"only the arguments of (?P<tool>\S+), one JSON object.*\n"
    r"(?P<schema>\{.*\})$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class ReplyDemands:
    """The demands of one request on its reply.

    ``choice`` may be a tool's name; ``answer`` is None for a text.
    """

    tools: Mapping[str, Tool]
    choice: str = "auto"
    parallel: bool = False
    place: ReplyPlace = "call"
    answer: JSON = None
    answer_name: str = ""


class UnreliableModel:
    """Answers chat completions about a scenario, at first often wrongly.

    ``failure_rate`` is the share of wrong first replies. A correction fixes
    exactly the faults it names. About one fixed reply in seven has another
    fault, and hopeless questions are never fixed. Plain text is never wrong.
    The same seed and conversation give the same response. An unknown question
    is answered by a call of the first tool, or by plain text. Raises
    ValueError if ``failure_rate`` is not between 0 (no failure, not even for
    hopeless questions) and 1.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int = 0,
        failure_rate: float = DEFAULT_FAILURE_RATE,
    ) -> None:
        if not 0 <= failure_rate <= 1:
            raise ValueError("failure_rate must be between 0 and 1")

        self._scenario = scenario
        self._seed = seed
        self._failure_rate = failure_rate

    def __call__(self, request: JSONObject) -> JSONObject | HTTPReply:
        """Answer one request; with status 400 if its tools are invalid."""
        try:
            demands = read_demands(request, self._scenario.tools)
            drafts = self._reply(
                request["messages"], demands, token_limit(request) or 0
            )
        except ValueError as error:
            return error_reply(400, str(error))

        dice = self._dice("ids", json.dumps(request["messages"]))
        id_ = f"chatcmpl-{dice.getrandbits(96):024x}"
        calls: list[JSON] = [
            native_call(
                one.tool, one.text, f"call_{dice.getrandbits(96):024x}"
            )
            for one in drafts
        ]
        message = (
            assistant(None, calls)
            if drafts[0].tool
            else assistant(drafts[0].text)
        )

        cut = any(draft.cut for draft in drafts)
        asked = json.dumps([request["messages"], request.get("tools", [])])
        tokens = max(1, len(asked) // CHARS_PER_TOKEN)
        written = max(1, len(json.dumps(message)) // CHARS_PER_TOKEN)
        if cut:
            written = token_limit(request) or DEFAULT_MAX_TOKENS
        usage = (tokens, written)

        model = str(request.get("model", ""))
        reason = "length" if cut else None
        return completion(
            message, id=id_, model=model, finish_reason=reason, usage=usage
        )

    def _reply(
        self, turns: Sequence[JSONObject], demands: ReplyDemands, limit: int
    ) -> list[Draft]:
        back = corrections.answered_reply(turns)
        if (
            back is None
            or self._scenario.question(text_of(turns[-1])) is not None
        ):
            return self._first_drafts(first_ask(turns), demands, limit)

        targets = self._targets(back, demands)
        wrong = {
            draft
            for draft in back.prior
            if not any(is_met_by(target, draft) for target in targets)
        }
        own = (
            draft
            for target in targets
            for draft in self._mistakes(back, target)
        )

        # A remark on a wrong reply is a correction if it names a place, or if
        # this model made the mistake itself.
        if wrong and (
            corrections.names_a_place(back.said) or not wrong.isdisjoint(own)
        ):
            return self._fixed_drafts(back, targets, demands)

        state = first_ask(turns)
        if targets[0].place == "union" and is_met_by(
            targets[0], back.prior[0]
        ):
            # In the text channel the result of a correct call is a user turn.
            state = replace(
                back, key=back.said, results=(*back.results, back.said)
            )

        return self._first_drafts(state, demands, limit)

    def _first_drafts(
        self, state: ConversationState, demands: ReplyDemands, limit: int
    ) -> list[Draft]:
        """Write a first reply: correct, or with a fault in one call."""
        targets = self._targets(state, demands)[
            : None if demands.parallel else 1
        ]
        drafts = [clean_draft(target) for target in targets]
        dice = self._dice("fails", state.key)
        rate = self._failure_rate
        failing = dice.random() < rate or (
            rate > 0 and self._is_hopeless(state)
        )

        victim = dice.randrange(len(targets))
        mistakes = self._mistakes(state, targets[victim]) if failing else []
        if not mistakes or (mistakes[0].cut and limit > DEFAULT_MAX_TOKENS):
            return drafts

        faulty = mistakes[0]
        following = [] if faulty.cut else drafts[victim + 1 :]
        return [*drafts[:victim], faulty, *following]

    def _fixed_drafts(
        self,
        back: ConversationState,
        targets: Sequence[Target],
        demands: ReplyDemands,
    ) -> list[Draft]:
        """Write the reply again, with the correction applied.

        If the request demands one tool, write only the faulty call.
        """
        drafts: list[Draft] = []
        chosen = 0
        hopeless = self._failure_rate > 0 and self._is_hopeless(back)
        relapses = self._dice("relapses", back.key).random() < RELAPSE_RATE

        for index, (draft, remark) in enumerate(
            zip(back.prior, back.remarks, strict=True)
        ):
            if len(back.prior) == len(targets):
                target = targets[index]
            else:
                target = corrections.nearest(draft, targets)

            if draft.tool == demands.choice and not is_met_by(target, draft):
                chosen = index

            fixed = (
                draft
                if hopeless
                else corrections.fix(draft, target, remark, index)
            )
            mistakes = (
                self._mistakes(back, target)
                if relapses and fixed != draft
                else []
            )
            drafts.append(
                mistakes[1]
                if len(mistakes) > 1 and draft == mistakes[0]
                else fixed
            )

        return (
            drafts
            if demands.choice in {"auto", "required", "none"}
            else [drafts[chosen]]
        )

    def _mistakes(
        self, state: ConversationState, target: Target
    ) -> list[Draft]:
        """Make the mistakes of this step of the conversation.

        The first is for the first reply, the second for a relapse.
        """
        dice = self._dice("mistakes", state.key, clean_draft(target).text)
        first = draw(target, dice, values_only=self._is_hopeless(state))
        second = (
            draw(target, dice, avoid={first[0], CUT}, values_only=True)
            if first
            else None
        )
        return [drawn[1] for drawn in (first, second) if drawn]

    def _targets(
        self, state: ConversationState, demands: ReplyDemands
    ) -> list[Target]:
        """Choose the correct replies: calls, or one answer."""
        question = self._scenario.question(state.question)
        left = (
            question.calls[len(state.results) :]
            if question and demands.choice != "none"
            else ()
        )
        calls = [call for call in left if call.tool in demands.tools]
        if (
            not calls
            and demands.choice != "none"
            and _must_call(state, question, demands)
        ):
            nothing: dict[str, Any] = {}
            calls = [ToolCall(next(iter(demands.tools)), nothing)]
        if not calls:
            return [_answer(state, question, demands)]

        return [
            _target(
                demands.tools[call.tool], demands.place, call.args or None
            )
            for call in calls
        ]

    def _is_hopeless(self, state: ConversationState) -> bool:
        question = self._scenario.question(state.question)
        return question is not None and question.hopeless

    def _dice(self, *parts: str) -> random.Random:
        """Make the dice of one decision, from seed and conversation."""
        return random.Random(json.dumps([self._seed, *parts]))


def draw(
    target: Target,
    dice: random.Random,
    *,
    avoid: Collection[str] = (),
    values_only: bool = False,
) -> tuple[str, Draft] | None:
    """Draw a fault by its share: its name, and the faulty draft.

    None if no fault can be made.
    """
    shares = SHARES["call" if target.place == "call" else "content"]
    names = [name for name in shares if name not in avoid]
    values = [name for name in names if CATALOGUE[name].kind is Kind.ARGS]
    for left in (values, names) if values_only else (names,):
        while left:  # a new draw among the others keeps their shares
            name = dice.choices(left, weights=[shares[one] for one in left])[
                0
            ]
            drafts = spoiled_drafts(target, name)
            if drafts:
                return name, dice.choice(drafts)

            left.remove(name)

    return None


def spoiled_drafts(target: Target, fault: str) -> tuple[Draft, ...]:
    """Write the correct reply with one fault, once per possible place."""
    if target.place == "prose":
        return ()

    declared = target.tool.definition if target.tool else target.declared
    return _spoiled(
        fault, json.dumps(declared), target.place, json.dumps(target.value)
    )


@lru_cache(maxsize=MAX_REMEMBERED)
def _spoiled(
    fault: str, declared: str, place: ReplyPlace, value: str
) -> tuple[Draft, ...]:
    """Make faults once, because proving that each is refused takes time."""
    made = CATALOGUE[fault].all_for(
        json.loads(declared), place=place, args=json.loads(value)
    )
    choices = [cast("Any", one.served)["choices"][0] for one in made]
    drafts = (
        (
            corrections.drafts_of(choice["message"])[0],
            choice["finish_reason"] == "length",
        )
        for choice in choices
    )
    return tuple(replace(draft, cut=cut) for draft, cut in drafts)


def read_demands(
    request: JSONObject, known: Sequence[Callable[..., Any]] = ()
) -> ReplyDemands:
    """Read the demands of a request; ValueError if they are invalid.

    ``known`` are the tools if the request's text has no schemas.
    """
    if not request.get("tools"):
        roles = {"system", "developer"}
        texts = (
            text_of(turn)
            for turn in request["messages"]
            if turn.get("role") in roles
        )
        if in_text := _demands_in("\n".join(texts), known):
            return in_text

    if not isinstance(request.get("tools"), list | None):
        words = "'tools' must be a list"
        raise ValueError(words)  # noqa: TRY004 - an API error

    shaping = {
        name: request[name]
        for name in ("messages", "tools", *SHAPING)
        if name in request
    }
    asked = Demand(shaping)
    choice = asked.contract.choice
    described = fields(
        fields(request.get("response_format")).get("json_schema")
    )

    return ReplyDemands(
        tools={tool.name: tool for tool in asked.callable_tools},
        choice=choice if asked.callable_tools else "none",
        parallel=asked.contract.parallel and choice in {"auto", "required"},
        answer=asked.answer_schema,
        answer_name=str(described.get("name", "")),
    )


def _demands_in(
    text: str, known: Sequence[Callable[..., Any]]
) -> ReplyDemands | None:
    """Read the text channel's instructions; None if there are none."""
    # the arguments of one call, which the union form also accepts
    if alone := _PAYLOAD.search(text):
        tool = Tool.from_json_schema(
            alone["tool"], json.loads(alone["schema"])
        )
        return ReplyDemands({tool.name: tool}, "required", place="union")

    if spelled := next(filter(None, map(_union_in, text.splitlines())), None):
        return spelled
    if all(word in text for word in ("JSON", '"tool"', '"answer"')):
        return ReplyDemands(
            {tool.name: tool for tool in map(Tool.of, known)}, place="union"
        )

    return None


@lru_cache(maxsize=MAX_REMEMBERED)
def _union_in(line: str) -> ReplyDemands | None:
    """Read a line with the union's schema; None for any other line."""
    try:
        schema: object = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        return None

    forms = [
        fields(fields(form).get("properties"))
        for form in items(fields(schema).get("anyOf"))
    ]
    calls = [
        (fields(form["tool"]).get("const", ""), form["args"])
        for form in forms
        if {"tool", "args"} <= form.keys()
    ]
    answers = [fields(form["answer"]) for form in forms if "answer" in form]
    if not calls and not answers:
        return None

    tools = {
        str(name): Tool.from_json_schema(str(name), document)
        for name, document in calls
    }
    answer = (
        answers[0] if answers and answers[0].get("type") != "string" else None
    )
    choice = "auto" if tools else "none"
    if not answers:
        choice = "required"

    return ReplyDemands(
        tools,
        choice,
        False,
        "union",
        answer,
        str((answer or {}).get("title", "")),
    )


def _must_call(
    state: ConversationState, question: Question | None, demands: ReplyDemands
) -> bool:
    if not demands.tools or FINAL_ANSWER in demands.tools:
        return (
            demands.choice in demands.tools and demands.choice != FINAL_ANSWER
        )

    calls = question.calls if question else ()
    fits = any(call.tool in demands.tools for call in calls)
    is_strange = question is None or (bool(calls) and not fits)
    return demands.choice != "auto" or (is_strange and not state.results)


def _answer(
    state: ConversationState, question: Question | None, demands: ReplyDemands
) -> Target:
    """Choose an answer: from the results, the scenario, or a default."""
    text = (question.answer if question else "") or _UNKNOWN_QUESTION
    if state.results:
        found = "; ".join(state.results)[:MAX_QUOTED_RESULT]
        text = f"Here is what I found: {found}"

    if FINAL_ANSWER in demands.tools and demands.choice != "none":
        return _target(
            demands.tools[FINAL_ANSWER], demands.place, {"answer": text}
        )

    known: JSON = None
    if question and demands.answer is not None:
        known = question.structured.get(demands.answer_name)

    if demands.place != "union":
        if demands.answer is None:
            return Target.of(args=text)
        return _target(demands.answer, "json", known)

    # In the union, an answer is a JSON object of this form.
    properties: JSON = {
        "answer": {"type": "string"}
        if demands.answer is None
        else demands.answer
    }
    form: JSON = {
        "type": "object",
        "properties": properties,
        "required": ["answer"],
    }
    said = text if demands.answer is None else known
    return _target(form, "json", None if said is None else {"answer": said})


def _target(declared: object, place: ReplyPlace, value: JSON) -> Target:
    """Return the correct reply as a target, or an example.

    It is an example if no correct reply is known, or if that does not fit the
    request.
    """
    try:
        return Target.of(declared, place=place, args=value)
    except ValueError:
        return Target.of(declared, place=place)


def token_limit(request: JSONObject) -> int | None:
    """Return the token limit of a request, in either spelling; else None."""
    limit: object = request.get(
        "max_completion_tokens", request.get("max_tokens")
    )
    return limit if isinstance(limit, int) else None


def main() -> None:
    """Serve the model, and print its address and questions."""
    parser = argparse.ArgumentParser(description="Serve an unreliable model.")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--failure-rate", type=float, default=DEFAULT_FAILURE_RATE
    )
    options = parser.parse_args()

    model = UnreliableModel(
        SCENARIO, seed=options.seed, failure_rate=options.failure_rate
    )
    server = LoopbackServer(model, port=options.port)
    questions = (f"  {question.text}" for question in SCENARIO.questions)
    words = "\n".join(
        [
            f"An unreliable model is served at {server.base_url}",
            "It knows these questions, and the tools of shop_scenario.py:",
            *questions,
        ]
    )
    with suppress(KeyboardInterrupt):
        server.serve_forever(ready=lambda: print(words, flush=True))


if __name__ == "__main__":
    main()
