"""The JSON form of a script, over HTTP and in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, get_args

from strictreply.batch.lines import open_lines
from strictreply.core import JSON, JSONObject
from strictreply.schema import Schema
from strictreply.testing._given import GIVEN, ScriptError, check, closed, read_form
from strictreply.testing._steps import ReplyPlace
from strictreply.testing.faults import entry_named

GOOD: Final = "good"
"""The step that serves any good reply that fits the request."""
EXAMPLE_SCRIPT = '{"steps": ["missing_required", {"call": "search"}], "then": "good"}'

_AS_TEXT = 'to serve such a reply, write its text: {"body": "…"}'

Plan: TypeAlias = "str | JSONObject"
"""A step after reading: ``good``, or an object of one of the forms."""

_NAME: JSON = {"type": "string", "maxLength": 200}
_FORMS: Mapping[str, Schema] = {
    "fault": closed("fault", fault=_NAME, tool=_NAME, at=_NAME, place=_NAME, args=True),
    "call": closed("call", call={"anyOf": [_NAME, {"type": "null"}]}, args={"type": "object"}),
    "answer": closed("answer", answer=True),
    **GIVEN,
}


_STEP: JSON = {"type": ["string", "object"]}
_SCRIPT_SCHEMA = closed("steps", steps={"type": "array", "items": _STEP}, then=_STEP)


class NotJSONError(ScriptError):
    """A script or a step is not JSON."""


class PlannedScript(NamedTuple):
    """The steps of a script, and the step after them; None for an HTTP 400."""

    steps: tuple[Plan, ...]
    then: Plan | None


def read_step(value: object, where: str = "") -> Plan:
    """Read one step; raise ScriptError with a hint, its text beginning with ``where``.

    A text is ``good``, or the name of a fault.
    """
    try:
        return _read(value)
    except ValueError as error:
        raise ScriptError(f"{where}{error}") from None


def _read(value: Any) -> Plan:
    if value == GOOD:
        return GOOD
    if not isinstance(value, str | dict):
        raise ScriptError("a step must be an object, or the name of a fault")

    plan: JSONObject = {"fault": value} if isinstance(value, str) else value
    if read_form(plan, _FORMS) == "fault":
        entry_named(plan["fault"])

    if (place := plan.get("place")) is not None and place not in get_args(ReplyPlace):
        raise ScriptError(f"place must be one of {', '.join(get_args(ReplyPlace))}")

    return plan


def parsed(text: str | bytes) -> Any:
    """Parse the JSON of a script or a step.

    Raises ScriptError with a hint for text that is not JSON, for JSON that Python cannot hold, and
    for a key that is in an object twice, of which only the last would be served.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except ScriptError:
        raise
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise NotJSONError("it is not valid JSON") from None
    except RecursionError:
        raise ScriptError(f"it is nested too deeply; {_AS_TEXT}") from None
    except ValueError:  # of Python's own limit
        raise ScriptError(f"it has a number with too many digits; {_AS_TEXT}") from None


def _once(pairs: list[tuple[str, JSON]]) -> JSONObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ScriptError(f"the key {json.dumps(twice)} is there twice; {_AS_TEXT}")

    return found


def planned_script(value: Any) -> PlannedScript:
    """Read an object with ``steps`` and ``then``; raise ScriptError with a hint."""
    check(_SCRIPT_SCHEMA, value, "script")
    steps = tuple(read_step(step, f"steps.{index}: ") for index, step in enumerate(value["steps"]))
    return PlannedScript(steps, read_step(value["then"], "then: ") if "then" in value else None)


def read_script(path: str | Path) -> JSONObject:
    """Read a script from a file, in the form of ``POST /script`` and :class:`ScriptServer`.

    ``path`` is a file with that object, or JSON lines with a step on each. A last line ``{"then":
    step}`` is served after the others. Lines that :func:`record` wrote are steps, too. Raises
    OSError, and ValueError that names the file and the line, and says what to write.
    """
    try:
        return _read_script(Path(path))
    except ScriptError as error:
        raise ScriptError(f"{path}: {error}") from None


def _read_script(path: Path) -> JSONObject:
    lines = [(number, line) for number, line, _ in open_lines(path)]
    if not lines:
        raise ScriptError("the file is empty; write a step on each line")

    try:
        whole: Any = parsed(b"".join(line for _, line in lines))
    except NotJSONError:
        return _read_lines(lines)

    if isinstance(whole, list):
        raise ScriptError('this is a list; write {"steps": […]}, or a step on each line')
    if not (isinstance(whole, dict) and "steps" in whole):
        return _read_lines([(lines[0][0], b"".join(line for _, line in lines))])

    planned_script(whole)
    return whole


def _read_lines(lines: Iterable[tuple[int, bytes]]) -> JSONObject:
    steps: list[JSON] = []
    script: JSONObject = {"steps": steps}

    for number, line in lines:
        where = f"line {number}: "
        if "then" in script:
            raise ScriptError(f'{where}nothing may follow {{"then": …}}')

        try:
            value: Any = parsed(line)
        except NotJSONError:
            raise ScriptError(
                f'{where}it is not JSON; write {{"content": "…"}} for a text of the model, '
                '{"stream": "data: …"} for a stream, {"body": "…"} for any other body'
            ) from None
        except ScriptError as error:
            raise ScriptError(f"{where}{error}") from None

        if isinstance(value, dict) and value.keys() == {"then"}:
            script["then"] = read_step(value["then"], f"{where}then: ")
        else:
            steps.append(read_step(value, where))

    return script
