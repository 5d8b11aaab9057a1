"""Good replies, as steps of a script.

Each is checked to pass a strict contract.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_core import to_jsonable_python

from strictreply import Invalid
from strictreply.core import JSON
from strictreply.testing._steps import PROSE, Fault, NoExample, ReplyPlace, Step, Target, keywords
from strictreply.testing._wire import assistant, completion, native_call


def reply(
    tool: object = None, *, place: ReplyPlace = "call", args: Any = None, after: Step | None = None
) -> Step:
    """Return a good reply: a call of a tool, or an answer.

    - ``tool`` is a function, a model, a definition, or the type of an answer.
    - ``place`` is where the reply is written; ``"json"`` makes a structured answer.
    - ``args`` are the arguments or the answer; None for an example made from the schema.
    - ``after`` is served instead when a request ends with the result of this call, so that a tool
      loop ends: ``ok.reply(search, after=ok.answer())``. None serves the call again.

    Raises ValueError when the arguments do not fit, or when no example can be made.
    """
    target = Target.of(tool, place=place, args=args)
    words = [] if after is None else [f"after={after.source}"]
    written = target.call(*words, place=place != "call")
    return replace(_proved("reply", target, written), after=after)


def call(tool: object, /, **args: Any) -> Step:
    """Call one tool with these arguments.

    ``tool`` is a function, a model or a definition. Without ``args`` they are an example made from
    the schema. Raises ValueError when they do not fit the schema.
    """
    return _called("call", tool, "call", args)


def calls(*steps: Step) -> Step:
    """Put several calls into one reply.

    ``steps`` are calls made by :func:`call`. Raises ValueError for other steps, and without steps.
    """
    made: list[tuple[JSON, JSON]] = []
    for step in steps:
        served: Any = step.served
        match served:
            case {"choices": [{"message": {"tool_calls": called}}]} if not isinstance(step, Fault):
                made += [(one["function"]["name"], one["function"]["arguments"]) for one in called]
            case _:
                raise ValueError(
                    f"ok.calls() takes steps made by ok.call, not {step.name}: for a bad call "
                    "beside a good one, take faults.unknown_tool_beside_good_call, or give the "
                    "whole reply as {'body': {…}}"
                )

    if not made:
        raise ValueError("ok.calls() takes at least one step made by ok.call")

    joined: list[JSON] = [
        native_call(name, text, f"call_{number}") for number, (name, text) in enumerate(made, 1)
    ]
    source = ", ".join(step.source for step in steps)
    return Step("ok.calls", completion(assistant(None, joined)), f"ok.calls({source})")


def answer(value: object = PROSE) -> Step:
    """Answer with a text, or with JSON if the value is not a text.

    ``value`` is a text, a JSON value, an instance of a model, or a dataclass. Raises ValueError for
    a blank text, and for a value that JSON cannot express.
    """
    given = to_jsonable_python(value)
    if isinstance(given, str):
        target = Target(given, "prose")
    else:
        target = Target(given, "json", declared={})

    return _proved("answer", target, "" if given == PROSE else repr(given))


def action(name: str, /, **members: Any) -> Step:
    """Choose an agent's action, such as ``action("invoke_agent", action_input="writer")``.

    ``name`` is one of the actions of ``strictreply.coordination``; ``members`` are its other
    members. Raises ValueError for an unknown action or a wrong member.
    """
    # only programs that coordinate agents need it
    from strictreply.coordination import ActionType  # noqa: PLC0415

    if name not in set(ActionType):
        raise ValueError(f"{name!r} is not an action; the actions are {', '.join(ActionType)}")

    asked = {"next_action": name, **to_jsonable_python(members)}
    if issues := ActionType(name).check(asked):
        raise ValueError(f"this is not a valid {name} action: {issues[0].dotted}")

    return Step("ok.action", answer(asked).served, f"ok.action({name!r}{keywords(members)})")


def union(tool: object, /, **args: object) -> Step:
    """Call one tool in the text channel: the content is the JSON union.

    The parameters and errors are those of :func:`call`.
    """
    return _called("union", tool, "union", args)


def _called(name: str, tool: object, place: ReplyPlace, args: dict[str, Any]) -> Step:
    target = Target.of(tool, place=place, args=args or None)
    given: Any = target.value if args else {}
    return _proved(name, target, target.source + keywords(given))


def _proved(name: str, target: Target, words: str) -> Step:
    """Make a step whose reply passes a strict contract; raise ValueError if it does not pass."""
    verdict = target.contract.check(target.clean)
    if isinstance(verdict, Invalid):
        why = verdict.issues[0].dotted
        if target.given or target.schema is None:
            # a value's content
            raise ValueError(f"a strict contract refuses these arguments: {why}")

        raise NoExample(f"a strict contract refuses the example of the kit: {why}")

    return Step(f"ok.{name}", target.clean, f"ok.{name}({words})")
