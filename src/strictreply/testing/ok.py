"""Good replies, for the steps of a script that nothing is wrong with.

Each is proved to pass the strict gate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_core import to_jsonable_python

from strictreply import Invalid
from strictreply.core import JSON
from strictreply.testing._steps import PROSE, Fault, ReplyPlace, Step, Target, keywords
from strictreply.testing._wire import assistant, completion, native_call


def reply(
    tool: object = None, *, place: ReplyPlace = "call", args: Any = None, after: Step | None = None
) -> Step:
    """Return the good reply that faults of the same arguments are made on.

    See :class:`Target` for the arguments.

    ``after`` is what is served in its place once the result of the call is there, so that a loop
    over tools comes to an end: ``ok.reply(search, after=ok.answer())``. None serves the call again.

    Raises ValueError when the arguments do not fit, or no example that does could be made.
    """
    target = Target.of(tool, place=place, args=args)
    words = [] if after is None else [f"after={after.source}"]
    written = target.call(*words, place=place != "call")
    return replace(_proved("reply", target, written), after=after)


def call(tool: object, /, **args: Any) -> Step:
    """Call one tool with these arguments.

    Without arguments it is called with example ones. Raises ValueError when they do not fit.
    """
    return _called("call", tool, "call", args)


def calls(*steps: Step) -> Step:
    """Put several calls into one reply, each made by :func:`call`.

    Raises ValueError for other steps, and when there are none.
    """
    made: list[tuple[JSON, JSON]] = []
    for step in steps:
        served: Any = step.served
        match served:
            case {"choices": [{"message": {"tool_calls": called}}]} if not isinstance(step, Fault):
                made += [(one["function"]["name"], one["function"]["arguments"]) for one in called]
            case _:
                raise ValueError(f"ok.calls() takes steps made by ok.call, not {step.name}")

    if not made:
        raise ValueError("ok.calls() takes at least one step made by ok.call")

    joined: list[JSON] = [
        native_call(name, text, f"call_{number}") for number, (name, text) in enumerate(made, 1)
    ]
    source = ", ".join(step.source for step in steps)
    return Step("ok.calls", completion(assistant(None, joined)), f"ok.calls({source})")


def answer(value: object = PROSE) -> Step:
    """Answer with a text, or with JSON when the value is not a text.

    The value of a JSON answer is a JSON value, a model's instance or a dataclass. Raises ValueError
    for a blank text, and for what JSON cannot say.
    """
    given = to_jsonable_python(value)
    if isinstance(given, str):
        target = Target(given, "prose")
    else:
        target = Target(given, "json", declared={})

    return _proved("answer", target, "" if given == PROSE else repr(given))


def action(name: str, /, **members: Any) -> Step:
    """Let an agent ask for an action, such as ``action("invoke_agent", action_input="writer")``.

    The actions are those of ``strictreply.coordination``. Raises ValueError for an action that is
    not one of them, and for members that it does not have.
    """
    # only for those who coordinate agents
    from strictreply.coordination import ActionType  # noqa: PLC0415

    if name not in set(ActionType):
        raise ValueError(f"{name!r} is not an action; the actions are {', '.join(ActionType)}")

    asked = {"next_action": name, **to_jsonable_python(members)}
    if issues := ActionType(name).check(asked):
        raise ValueError(f"this is not a valid {name} action: {issues[0].dotted}")

    return Step("ok.action", answer(asked).served, f"ok.action({name!r}{keywords(members)})")


def union(tool: object, /, **args: object) -> Step:
    """Call one tool in the text channel: the JSON union in the content.

    Otherwise it is the same as :func:`call`.
    """
    return _called("union", tool, "union", args)


def _called(name: str, tool: object, place: ReplyPlace, args: dict[str, Any]) -> Step:
    target = Target.of(tool, place=place, args=args or None)
    given: Any = target.value if args else {}
    return _proved(name, target, target.source + keywords(given))


def _proved(name: str, target: Target, words: str) -> Step:
    """Make the step of a reply that passes the strict gate; ValueError where it does not."""
    verdict = target.contract.check(target.clean)
    if isinstance(verdict, Invalid):
        source = "the example; give args="
        if target.given or target.schema is None:
            source = "these arguments"
        # a value's content
        raise ValueError(f"the gate refuses {source}: {verdict.issues[0].dotted}")  # noqa: TRY004

    return Step(f"ok.{name}", target.clean, f"ok.{name}({words})")
