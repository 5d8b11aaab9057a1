"""What a later correction changes beside its words: a forced tool, a response format, a stronger model, a human's help.

The steps are taken one after another from the third tier on, and stay in force; the last one stays the last.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from strictreply.values._errors import ContractError

if TYPE_CHECKING:
    from strictreply.retry._policy import RetryPolicy
    from strictreply.retry._steering import Situation

ESCALATION_TIER = 3
FORCED_TOOL, RESPONSE_FORMAT, MODEL, HUMAN = "forced_tool", "response_format", "model", "human"
STEPS = (FORCED_TOOL, RESPONSE_FORMAT, MODEL, HUMAN)

Step: TypeAlias = "str | Mapping[str, Any]"
"""One of :data:`STEPS`, where the models are ``model:<name>``, or keywords of the request."""


@dataclass(frozen=True, slots=True)
class Consult:
    """Effect: ask a human for the correction of a reply."""

    situation: Situation
    ask: Callable[[Situation], Any]


@dataclass(frozen=True, slots=True)
class Consulted:
    """Event: what the human wants the model told, None to give up, and the seconds it took."""

    text: str | None
    seconds: float = 0.0


def perform_consult(effect: Consult) -> Consulted:
    """Ask the human; ContractError when the callback turns out to be async."""
    answer = effect.ask(effect.situation)
    if inspect.iscoroutine(answer):
        answer.close()
        raise ContractError("RetryPolicy.ask_human is async; use an async client")
    return _consulted(answer)


async def aperform_consult(effect: Consult) -> Consulted:
    """Ask the human, awaiting an async callback."""
    answer = effect.ask(effect.situation)
    return _consulted(await answer if inspect.isawaitable(answer) else answer)


def _consulted(answer: object) -> Consulted:
    if answer is not None and not isinstance(answer, str):
        message = f"RetryPolicy.ask_human must return the text for the model, or None; not {type(answer).__name__}"
        raise ContractError(message)
    return Consulted(answer)


def steps_in_force(policy: RetryPolicy, model: object, tier: int, is_usable: Callable[[Step], bool]) -> list[Step]:
    """Return the steps that count at a tier, the one taken last at the end; ``model`` is the request's own.

    Where the policy names keywords and no steps, these count at every tier from the first step on.
    """
    if tier < ESCALATION_TIER:
        return []
    always: list[Step] = [policy.escalation] if policy.escalation and isinstance(policy.escalation, Mapping) else []
    return [*always, *islice(filter(is_usable, _ladder(policy, model)), tier - ESCALATION_TIER + 1)]


def step_name(step: Step) -> str:
    """Return what a step is called on an attempt."""
    return step if isinstance(step, str) else "keywords"


def _ladder(policy: RetryPolicy, model: object) -> Iterator[Step]:
    """Yield all steps: those that the policy names, then the models and the human where it names none."""
    named = [] if isinstance(policy.escalation, Mapping) else list(policy.escalation)
    behind = [step for step, has in ((MODEL, policy.models), (HUMAN, policy.ask_human)) if has and step not in named]
    rungs = list(policy.models)
    left = iter(rungs[rungs.index(model) + 1 :] if isinstance(model, str) and model in rungs else rungs)
    steps = [*named, *behind]
    for number, step in enumerate(steps):
        if step == MODEL:  # one rung for each time it is named, the last time all that are left
            more = MODEL in steps[number + 1 :]
            yield from (f"{MODEL}:{name}" for name in islice(left, 1 if more else None))
        else:
            yield step


def refuse_escalation(policy: RetryPolicy) -> None:
    """Raise ValueError for steps that are none, and for those that lack what they need."""
    given = policy.escalation
    steps = [] if isinstance(given, Mapping) else list(given)
    wrong = ""
    if isinstance(given, str) or not all(isinstance(step, Mapping) or step in STEPS for step in steps):
        wrong = f"escalation is keywords of a request, or a list of them and of {', '.join(STEPS)}"
    elif isinstance(policy.models, str):
        wrong = "models is a list of names; put the one model into a list"
    elif MODEL in steps and not policy.models:
        wrong = f"escalation names {MODEL!r}, which needs models"
    elif HUMAN in steps and policy.ask_human is None:
        wrong = f"escalation names {HUMAN!r}, which needs ask_human"
    if wrong:
        message = f"RetryPolicy.{wrong}"
        raise ValueError(message)
