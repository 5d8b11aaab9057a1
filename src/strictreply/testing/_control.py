"""A script that is set over HTTP, so that a test in any language can choose the replies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import groupby, pairwise
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from strictreply import ContractError, Tool
from strictreply.core import JSON, JSONObject
from strictreply.testing import ok
from strictreply.testing._given import GIVEN, given_reply
from strictreply.testing._probing.client_verdicts import STORM, verdict_on
from strictreply.testing._script_form import (
    EXAMPLE_SCRIPT,
    GOOD,
    Plan,
    PlannedScript,
    parsed,
    planned_script,
    read_step,
)
from strictreply.testing._scripts import (
    MAX_REQUESTS,
    Asked,
    Demand,
    as_served,
    script_over,
    turns_of_model,
)
from strictreply.testing._server import is_loopback
from strictreply.testing._serving import respond, routed, routes
from strictreply.testing._steps import Fault, ReplyPlace, Step, Target
from strictreply.testing._wire import CallIds, HTTPReply, Responder, Served, error_reply
from strictreply.testing.faults import CATALOGUE, FaultNotMade, entry_named

# The request header with its step: the JSON of a step, or only the name of a fault.
HEADER = "x-strictreply-fault"
_CONTROLS: Mapping[str, str] = {"/script": "POST", "/journal": "GET", "/faults": "GET"}


@dataclass(slots=True)
class _Record:
    """One request in the journal."""

    asked: Asked
    """The request as the script counts it."""
    path: str
    """Path that was called."""
    body: bytes
    """The body of the request, unchanged."""
    chosen: str | None
    """The step that the request itself names; None when it names none."""
    step: Step | None = None
    """The step that was served; None for a 400."""
    served: JSON = None
    """What was served; None for a 400."""
    refused: str | None = None
    """Why the request got a 400; None when it did not."""


def _told(body: bytes) -> JSON:
    """Return a request that any JSON parser can read: without NaN, and numbers within a double.

    None when it is nested over 200 levels.
    """

    def finite(text: str) -> float | str:
        return number if isfinite(number := float(text)) else text

    try:
        read: JSON = json.loads(body, parse_constant=str, parse_float=finite)
    except RecursionError:
        return None

    level: list[Any] = [read]
    for _ in range(200):
        lists = [[*value.values()] if isinstance(value, dict) else value for value in level]
        level = [one for members in lists if isinstance(members, list) for one in members]

    return None if level else read


@dataclass(slots=True)
class _Run:
    """One script and its requests."""

    steps: tuple[Plan, ...] = ()
    """The planned steps, in order."""
    then: Plan | None = GOOD
    """The step for every request after them; None for an HTTP 400."""
    rejected: str = ""
    """Why the script was rejected, so that every request gets an HTTP 400; empty if it was not."""
    journal: list[_Record] = field(default_factory=list[_Record])
    """The requests so far, in order."""
    taken: int = 0
    """Number of requests without a step in a header."""
    ids: CallIds = field(default_factory=CallIds)
    """Makes the ids of calls."""

    def planned(self, number: int, request: JSONObject) -> Plan | HTTPReply:
        """Return the step of the request with this number, or a 400 if there is none."""
        if self.rejected:
            words = f"no reply, because the last script was rejected: {self.rejected}"
            return error_reply(400, words, code="invalid_script")

        beyond = number - len(self.steps)
        if beyond <= 0:
            return self.steps[number - 1]
        if self.then is None:
            return script_over(number, len(self.steps))

        turns = len(turns_of_model(request))
        if self.then == GOOD:
            # only turns of this script count: the conversation may have begun elsewhere
            repeats = min(turns, len(self.journal))
        elif is_bad(self.then):
            repeats = beyond - 1
        else:
            repeats = turns

        if repeats >= MAX_REQUESTS:
            return script_over(number, len(self.steps), MAX_REQUESTS)
        return self.then


class ScriptControl:
    """The control of a server whose script is set over HTTP (``docs/testing.md``).

    Good replies are made by the server's responder. ``script`` is served until
    another one is set; None serves good replies. ``log`` gets the reason of every HTTP 400.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        script: PlannedScript | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._run = _Run(*script) if script else _Run()
        self._clock = clock

    def __call__(
        self,
        responder: Responder,
        method: str,
        target: str,
        body: bytes,
        headers: Mapping[str, str],
    ) -> HTTPReply:
        """Answer one request: of the script's own paths, or of an API with a step."""
        route = routed(method, target, {**routes(), **_CONTROLS})
        if isinstance(route, HTTPReply):
            return route

        if route not in _CONTROLS:
            serve = partial(self._serve, responder, target, body, headers.get(HEADER))
            return respond(serve, method, target, body)

        # so that a web page cannot set a script
        for sent in (headers.get("host"), headers.get("origin")):
            if sent is None:
                continue

            address = urlsplit(sent if "//" in sent else f"//{sent}")
            if not is_loopback(address.hostname or ""):
                words = (
                    "the control serves this machine only: "
                    "Host and Origin must be loopback addresses"
                )
                return error_reply(403, words)

        if route == "/script":
            return self._begin(body)
        if route == "/journal":
            return self._journal()

        return HTTPReply.json(200, [entry.to_dict() for entry in CATALOGUE.values()])

    def _begin(self, body: bytes) -> HTTPReply:
        """Begin a new script, and forget the journal; a 400 says what is wrong with the body."""
        try:
            script = planned_script(parsed(body))
        except ValueError as error:
            message = f"this is not a script: {error}; write for example {EXAMPLE_SCRIPT}"
            with self._lock:
                # a test must not go on with the script before, or with good replies
                self._run = _Run(rejected=str(error))
            return self._refused(message, "invalid_script")

        with self._lock:
            self._run = _Run(*script)

        return HTTPReply.json(200, {"steps": len(script.steps)})

    def _journal(self) -> HTTPReply:
        with self._lock:
            run = self._run
            records = [*self._run.journal]

        requests: list[JSON] = [
            {
                "number": record.asked.number,
                "path": record.path,
                "request": _told(record.body),
                "correction": record.asked.correction,
                "served": record.served,
                "refused": record.refused,
            }
            for record in records
        ]

        spent = not run.rejected and run.taken >= len(run.steps)
        verdicts = _verdicts(records)
        return HTTPReply.json(200, {"spent": spent, "requests": requests, "verdicts": [*verdicts]})

    def _serve(
        self, responder: Responder, path: str, body: bytes, chosen: str | None, request: JSONObject
    ) -> Served:
        with self._lock:
            run = self._run
            first = run.journal[0].asked if run.journal else None
            asked = Asked(len(run.journal) + 1, request, None, first, self._clock())
            record = _Record(asked, path, body, chosen)
            run.journal.append(record)

            run.taken += chosen is None
            number = run.taken

        try:
            plan = run.planned(number, request) if chosen is None else _chosen(chosen)
            if isinstance(plan, HTTPReply):
                record.refused = json.loads(plan.body)["error"]["message"]
                self._tell(record.refused)
                return plan

            if isinstance(plan, str):
                served = run.ids.fresh(responder(request), request)
                record.served = plan
                return served

            if is_given(plan):
                record.served = plan
                return given_reply(plan, request)

            record.step, record.served = _made(plan, Demand(request, dialects="strict"))
            return as_served(record.step, request, run.ids)
        except (ContractError, ValueError) as error:
            record.refused = str(error)
            return self._refused(f"no step for this request: {error}", "step_not_made")

    def _refused(self, message: str, code: str) -> HTTPReply:
        """Return an HTTP 400, whose reason is also logged: an app may hide it."""
        self._tell(message)
        return error_reply(400, message, code=code)

    def _tell(self, message: str | None) -> None:
        if self._log is not None and message:
            self._log(f"HTTP 400: {message}")


def is_given(plan: JSONObject) -> bool:
    """Report whether a step is a reply that the user gives."""
    return not plan.keys().isdisjoint(GIVEN)


def is_bad(plan: Plan) -> bool:
    """Report whether a step may always be refused, however often it is served."""
    return not isinstance(plan, str) and ("fault" in plan or is_given(plan))


def _verdicts(records: Sequence[_Record]) -> Iterator[JSONObject]:
    """Judge how one request was repeated after a fault.

    Each repeat is judged separately, and many of them together as a storm.
    """
    for _, group in groupby(records, key=lambda record: (record.body, record.chosen)):
        same = [*group]
        judged: list[Sequence[_Record]] = [*pairwise(same)]
        if len(same) > STORM:
            judged.append(same)

        for several in judged:
            step = several[0].step
            asked = [record.asked for record in several]
            found = verdict_on(step, asked) if isinstance(step, Fault) else None
            if found is not None:
                yield {"number": asked[-1].number, "verdict": found[0].value, "words": found[1]}


def _chosen(header: str) -> Plan:
    """Read the step of a header; ValueError says what is wrong with it."""
    try:
        value: JSON = parsed(header) if header.startswith("{") else header
        return read_step(value)
    except ValueError as error:
        example = (
            '"missing_required", {"fault": "wrong_type", "tool": "search", "at": "/limit"}, '
            '{"call": "search"}'
        )
        raise ValueError(f"{HEADER}: {error}; write for example {example}") from None


def _made(plan: JSONObject, demand: Demand) -> tuple[Step, JSON]:
    """Make a step for a request, with its JSON.

    ContractError and ValueError say why it cannot be made.
    """
    if "fault" in plan:
        return _fault(plan, demand)

    wanted: JSONObject = plan
    if "call" in plan:
        tool = _tool(demand, plan["call"])
        args = plan.get("args")
        step = ok.reply(tool, args=args)
        wanted = {"call": tool.name, "args": Target.of(tool, args=args).value}
    elif plan["answer"] is not None:
        step = ok.answer(plan["answer"])
    else:
        schema = demand.answer_schema
        place: ReplyPlace = "prose" if schema is None else "json"
        step = ok.reply(schema, place=place)
        wanted = {"answer": Target.of(schema, place=place).value}

    if not demand.admits(step.served):
        raise ValueError(
            f"{json.dumps(wanted)} is not a good reply to this request, which asks for "
            f"{demand.words}"
        )

    return step, wanted


def _fault(plan: JSONObject, demand: Demand) -> tuple[Step, JSONObject]:
    entry = entry_named(plan["fault"])
    what = f"faults.{entry.name} ({entry.summary})"
    natural = _places(demand, plan.get("tool"))
    usual: list[ReplyPlace] = [one for one in natural if one in entry.places]
    place: ReplyPlace | None = plan.get("place") or (usual[0] if usual else None)
    if place is None:
        raise FaultNotMade(
            f"{what} is written as {', '.join(entry.places)}, "
            f"and this request asks for {demand.words}"
        )

    if missing := demand.missing(entry.needs):
        raise FaultNotMade(f"{what} needs a request with {json.dumps(missing)}")

    tool = _tool(demand, plan.get("tool")) if place in {"call", "union"} else None
    declared = demand.answer_schema if place == "json" else tool
    if place == "json" and declared is None:
        raise FaultNotMade(
            f"{what} as json needs a response_format with a schema, and the request has none"
        )

    fault = entry(declared, plan.get("at", ""), place=place, args=plan.get("args"))
    if not demand.refuses(fault):
        needs = f"; it needs one with {json.dumps(dict(entry.needs))}" if entry.needs else ""
        raise FaultNotMade(
            f"{what} is not a fault for this request, in which it is a good reply{needs}"
        )

    record: JSONObject = {"fault": fault.name} | ({"tool": tool.name} if tool else {})
    return fault, record | {"place": place, "at": fault.at, "code": fault.code}


def _places(demand: Demand, tool: JSON) -> list[ReplyPlace]:
    """Return where this request's replies can be written, the usual place first.

    A named tool is called natively, or as JSON in the text.
    """
    if tool is not None:
        return ["call", "union"]

    answer: list[ReplyPlace] = ["prose"] if demand.answer_schema is None else ["json", "prose"]
    call: list[ReplyPlace] = ["call"] if demand.contract.tools else []
    return [*call, *answer] if demand.callable_tools else [*answer, *call]


def _tool(demand: Demand, name: JSON) -> Tool:
    """Find a tool of the request, the first that may be called when no name is given."""
    tools = {
        tool.name: tool for tool in (*demand.callable_tools, *demand.contract.by_name.values())
    }
    if name is None and tools:
        return next(iter(tools.values()))
    if name in tools:
        return tools[str(name)]
    if not tools:
        raise FaultNotMade("the request declares no tools")

    hint = "".join(f"; did you mean {near}?" for near in get_close_matches(str(name), tools, 1))
    raise FaultNotMade(f"the request declares no tool {name}, but {', '.join(tools)}{hint}")
