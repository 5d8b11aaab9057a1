"""The measurement: one first reply a row, and each style asks again for the same bad ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

import strictreply as sr
from strictreply import ContractError
from strictreply.core import JSONObject
from strictreply.measuring import STYLES, MeasureProgress, Reask, RecordedReply, Style
from strictreply.testing import assistant, completion, error_reply, native_call
from strictreply.testing.mounting import async_openai_client, openai_client
from support.measured import BAD, GOOD, Person, WeakModel, replayed

ROWS = [f"question {number}" for number in range(4)]
ANSWERING = ("again", "ours", "echo", "schema", "example", "fresh", "constrained")
BEHIND = ("ours", "echo", "schema", "example")


def measured(model: WeakModel, rows: list[Any] | None = None, **settings: Any) -> sr.MeasureReport:
    """Measure a scripted model on an answer, without ``response_format`` at first."""
    keywords: dict[str, Any] = {"answer": Person, "plain": True, **settings}
    return sr.measure(model.client(), ROWS if rows is None else rows, model="weak", **keywords)


def open_ticket(topic: Literal["billing", "quality"], text: str) -> str:
    """Open a ticket."""
    return f"{topic}: {text}"


def close_ticket(number: int) -> str:
    """Close a ticket."""
    return str(number)


def test_it_is_paired() -> None:
    """Each style asks once for every bad first reply, and for no other; behind its turn stands that
    very reply.
    """
    model = WeakModel(ROWS[0])
    report = measured(model)

    assert [(first.n, first.valid, first.kinds) for first in report.first] == [
        (4, 1, {"answer.type": 3})
    ]
    assert {(one.style, one.n) for one in report.recoveries} == {(name, 3) for name in ANSWERING}
    assert len(model.requests) == report.requests == 4 + 3 * len(ANSWERING)
    assert replayed(model.requests) == {BAD}

    asked = Counter(request["messages"][1]["content"][:10] for request in model.requests)
    assert asked == {"question 0": 1} | dict.fromkeys(ROWS[1:], 1 + len(ANSWERING))


def test_what_each_style_sends() -> None:
    """Alone ``again`` is the first request, ``fresh`` has no bad turn, ``echo`` the model's words,
    ``constrained`` a schema; the others correct behind the bad turn, in this order of length.
    """
    model = WeakModel()
    measured(model, ROWS[:1])
    first, *others = model.requests
    sent = dict(zip(ANSWERING, others, strict=True))

    assert sent["again"] == first
    assert [name for name in ANSWERING if replayed([sent[name]])] == [*BEHIND]
    assert [name for name in ANSWERING if "response_format" in sent[name]] == ["constrained"]
    schema = sent["constrained"]["response_format"]["json_schema"]["schema"]
    assert schema == sr.Contract(answer=Person).answer.document

    said = {name: sent[name]["messages"][-1]["content"] for name in ANSWERING}
    assert [name for name in ANSWERING if '"old"' in said[name]] == ["echo"]
    assert len(said["ours"]) < len(said["schema"]) < len(said["example"])
    assert said["fresh"].startswith(f"{ROWS[0]}\n")
    assert "/age" in said["fresh"]


def test_only_what_fits_is_recovered() -> None:
    """A style counts as recovered what the reply to its own request came to."""
    report = measured(WeakModel(fixing="A valid example"))
    found = {one.style: (one.n, one.recovered) for one in report.by_task()}
    assert found == {
        name: (4, 4 if name in {"example", "constrained"} else 0) for name in ANSWERING
    }


def test_without_plain_the_format_is_sent_from_the_first_request_on() -> None:
    """By default the first request is the wrapped client's own: nothing is left to constrain."""
    served: list[JSONObject] = []

    def answer(request: JSONObject) -> JSONObject:
        served.append(request)
        return completion(assistant(BAD))

    report = sr.measure(openai_client(answer), ROWS[:1], model="weak", answer=Person)
    assert [request for request in served if "response_format" not in request] == []
    assert set(report.styles) == {*ANSWERING} - {"constrained"}


def test_a_required_call_that_does_not_come() -> None:
    """Where tools are declared ``constrained`` asks for the union of their calls as JSON, and a
    call in it counts; ``forced`` names a tool where the bad reply has shown which.
    """
    served: list[JSONObject] = []

    def answer(request: JSONObject) -> JSONObject:
        served.append(request)
        if "response_format" in request:
            return completion(assistant('{"tool": "close_ticket", "args": {"number": 7}}'))
        if request["messages"][-1]["content"] == "bad call":
            return completion(assistant(calls=[native_call("close_ticket", '{"number": "x"}')]))
        return completion(assistant("I closed it."))

    report = sr.measure(
        openai_client(answer),
        ["bad call", "prose"],
        model="weak",
        tools=[open_ticket, close_ticket],
        request={"tool_choice": "required"},
    )
    found = {(one.kind, one.style): (one.n, one.recovered) for one in report.recoveries}
    assert found["args.type", "constrained"] == found["tool.required", "constrained"] == (1, 1)
    assert found["args.type", "forced"] == (1, 0)
    assert ("tool.required", "forced") not in found

    constrained = [request for request in served if "response_format" in request]
    assert [set(request) & {"tools", "tool_choice"} for request in constrained] == [set(), set()]
    forced = [request["tool_choice"] for request in served if "tool_choice" in request]
    assert {"type": "function", "function": {"name": "close_ticket"}} in forced


def test_seeds() -> None:
    """A row's first request has its seed, all its styles the next one: the same for each style, and
    not that of the first reply.
    """
    model = WeakModel()
    measured(model, [*ROWS[:2], {"messages": ROWS[2], "seed": 90}], seed=5)

    found: dict[str, list[int]] = {}
    for request in model.requests:
        found.setdefault(request["messages"][1]["content"][:10], []).append(request["seed"])
    expected = dict(zip(ROWS, (5, 7, 90), strict=False))
    assert found == {
        question: [seed, *[seed + 1] * len(ANSWERING)] for question, seed in expected.items()
    }

    without = WeakModel()
    measured(without, ROWS[:1])
    assert not any("seed" in request for request in without.requests)


class _Killed(WeakModel):
    """A weak model at whose ``last`` request the process is interrupted."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self._left = last

    def __call__(self, request: JSONObject) -> JSONObject:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        return super().__call__(request)


@pytest.mark.parametrize("answered", [0, 1, 5, 8, 9, 31])
def test_nothing_is_asked_twice(tmp_path: Path, answered: int) -> None:
    """A run that ends after any number of answers is gone on with: all requests together are those
    of a run in one go, each sent once, and so is the report.
    """
    journal = tmp_path / "journal.jsonl"
    whole = WeakModel()
    expected = measured(whole)

    killed = _Killed(answered)
    with pytest.raises(KeyboardInterrupt):
        measured(killed, journal=journal)
    assert len(killed.requests) == answered

    rest = WeakModel()
    report = measured(rest, journal=journal)
    assert [*killed.requests, *rest.requests] == whole.requests
    assert report.requests == len(rest.requests)
    assert counts(report) == counts(expected)

    after = WeakModel()
    assert counts(measured(after, journal=journal)) == counts(expected)
    assert after.requests == []


def counts(report: sr.MeasureReport) -> list[Any]:
    """Return what a report has counted, without seconds."""
    first = [(one.task, one.n, one.valid, one.kinds, one.prompt_tokens) for one in report.first]
    tries = [
        (one.task, one.kind, one.style, one.n, one.recovered, one.completion_tokens)
        for one in report.recoveries
    ]
    return [report.rows, report.unfinished, first, tries]


def test_a_torn_last_line_is_asked_again(tmp_path: Path) -> None:
    """The request of a line that was not written to its end is repeated, and no other."""
    journal = tmp_path / "journal.jsonl"
    expected = measured(WeakModel(), journal=journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:-9])

    model = WeakModel()
    assert counts(measured(model, journal=journal)) == counts(expected)
    assert len(model.requests) == 1
    assert [json.loads(line)["request"] for line in journal.read_bytes().splitlines()] == [
        json.loads(line)["request"] for line in lines
    ]


def test_another_prompt_is_asked_anew(tmp_path: Path) -> None:
    """What is known of one request is said of no other: not of another row, style or setting."""
    journal = tmp_path / "journal.jsonl"
    measured(WeakModel(), journal=journal, styles=["again"])
    for settings, expected in (
        ({"styles": ["again", "ours"]}, 4),
        ({"styles": ["again"], "request": {"temperature": 1}}, 8),
        ({"styles": ["again"], "rows": ["another"]}, 2),
    ):
        model = WeakModel()
        measured(model, journal=journal, **settings)
        assert len(model.requests) == expected


def test_rows_may_be_added_and_moved(tmp_path: Path) -> None:
    """What is known of a row stays known at another place; a row that is there twice has two
    replies.
    """
    journal = tmp_path / "journal.jsonl"
    measured(WeakModel(), ROWS[:2], journal=journal, styles=["again"])
    for rows, expected in (([*ROWS[1::-1], "new"], 2), ([ROWS[0], ROWS[1], ROWS[0]], 2)):
        model = WeakModel()
        report = measured(model, rows, journal=journal, styles=["again"])
        assert (len(model.requests), report.rows) == (expected, 3)


def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    """A file that is no journal is refused before anything is asked, and stays as it is."""
    other = tmp_path / "rows.jsonl"
    other.write_text('{"messages": "x"}\n')
    model = WeakModel()
    with pytest.raises(ContractError):
        measured(model, journal=other)
    assert (model.requests, other.read_text()) == ([], '{"messages": "x"}\n')


def test_one_journal_has_one_writer(tmp_path: Path) -> None:
    """A journal that another run writes is refused before anything is asked."""
    pytest.importorskip("fcntl")
    journal = tmp_path / "journal.jsonl"
    models = [WeakModel(), WeakModel()]
    refused: list[ContractError] = []

    def meanwhile(_: MeasureProgress) -> None:
        with pytest.raises(ContractError) as caught:
            measured(models[1], journal=journal)
        refused.append(caught.value)

    measured(models[0], ROWS[:1], journal=journal, on_progress=meanwhile)
    assert (len(refused), models[1].requests) == (1, [])


def test_failed_calls_are_counted_and_compared_with_nothing(tmp_path: Path) -> None:
    """A row at which a call of any style failed counts for no style; the next run repeats that call
    alone.
    """
    served: list[JSONObject] = []
    is_down = True

    def answer(request: JSONObject) -> Any:
        served.append(request)
        last = request["messages"][-1]["content"]
        if is_down and last.startswith("Not valid.") and "question 1" in str(request):
            return error_reply(503, "busy")
        return completion(assistant(BAD))

    def run() -> sr.MeasureReport:
        return sr.measure(
            openai_client(answer),
            ROWS[:3],
            model="weak",
            answer=Person,
            plain=True,
            styles=["again", "ours"],
            journal=tmp_path / "journal.jsonl",
        )

    report = run()
    assert (report.rows, report.unfinished, sum(report.failures.values())) == (2, 1, 1)
    assert [(one.style, one.n) for one in report.recoveries] == [("again", 2), ("ours", 2)]
    assert report.first[0].n == 3

    is_down = False
    before = len(served)
    report = run()
    assert (report.rows, report.unfinished, report.failures) == (3, 0, {})
    assert [(one.style, one.n) for one in report.recoveries] == [("again", 3), ("ours", 3)]
    assert len(served) - before == 1


def test_a_style_that_the_endpoint_refuses(tmp_path: Path) -> None:
    """A refused request is that style's result, is asked once, and takes no row from the others."""
    served: list[JSONObject] = []

    def answer(request: JSONObject) -> Any:
        served.append(request)
        if "response_format" in request:
            return error_reply(400, "unknown parameter: response_format")
        return completion(assistant(BAD))

    for _ in range(2):
        report = sr.measure(
            openai_client(answer),
            ROWS,
            model="weak",
            answer=Person,
            plain=True,
            journal=tmp_path / "journal.jsonl",
        )
        found = {one.style: (one.n, one.recovered, one.refused) for one in report.by_style()}
        assert found == {name: (4, 0, 4 if name == "constrained" else 0) for name in ANSWERING}
        assert (report.rows, report.failures) == (4, {})

    assert len(served) == 4 * (1 + len(ANSWERING))


def test_a_mistake_of_the_program_is_raised() -> None:
    """What is no failure of a call, such as an unknown keyword, is no figure of a measurement."""
    model = WeakModel()
    with pytest.raises(TypeError):
        measured(model, request={"no_such_keyword": 1})
    assert model.requests == []


def test_an_endpoint_that_is_down_is_left_alone() -> None:
    """After 20 consecutive failures nothing more is asked, and the report says so."""
    served: list[JSONObject] = []

    def refuse(request: JSONObject) -> Any:
        served.append(request)
        return error_reply(500, "down")

    rows = [f"row {number}" for number in range(50)]
    report = sr.measure(openai_client(refuse), rows, model="weak", answer=Person)
    assert (len(served), report.stopped, report.rows) == (20, "failures", 0)
    assert (sum(report.failures.values()), report.unfinished) == (20, 50)


def test_the_bounds() -> None:
    """``max_rows`` rows are measured, and none is begun after ``max_seconds``; each is said."""
    model = WeakModel()
    report = measured(model, max_rows=1, styles=["again"])
    assert (report.rows, report.stopped, len(model.requests)) == (1, "rows", 2)

    late = measured(model, max_seconds=1e-9)
    assert (late.rows, late.unfinished, late.stopped) == (0, 4, "seconds")
    assert measured(WeakModel(), max_rows=4, styles=["again"]).stopped == ""


def test_at_once_is_the_same() -> None:
    """However many rows are under way at once, the same is asked and counted, each row once."""
    model = WeakModel()
    expected = measured(model)
    together = WeakModel()
    steps: list[MeasureProgress] = []
    report = measured(together, concurrency=3, on_progress=steps.append)

    assert counts(report) == counts(expected)
    assert Counter(map(str, together.requests)) == Counter(map(str, model.requests))
    assert [step.rows for step in steps] == [1, 2, 3, 4]
    assert (steps[-1].of, steps[-1].bad, steps[-1].requests) == (4, 4, report.requests)


def test_a_style_of_ones_own() -> None:
    """A style is a name and a function of the bad reply, which may leave a reply out."""
    seen: list[RecordedReply] = []

    def politely(bad: RecordedReply) -> Reask | None:
        seen.append(bad)
        if "question 1" in str(bad.request):
            return None
        turn = {"role": "user", "content": "Please."}
        messages = [*bad.request["messages"], turn]
        return Reask({**bad.request, "messages": messages}, bad.contract.check)

    report = measured(WeakModel(fixing="Please."), styles=["again", Style("politely", politely)])
    found = {one.style: (one.n, one.recovered) for one in report.by_task()}
    assert found == {"again": (4, 0), "politely": (3, 3)}
    assert {(bad.issues[0].code, bad.issues[0].path) for bad in seen} == {
        ("answer.type", "/content/age")
    }


def test_tasks_are_counted_apart() -> None:
    """Rows are counted by their task; those without one are ``all``."""
    rows = [{"messages": "a", "task": "one"}, {"messages": "b", "task": "two"}, "c"]
    report = measured(WeakModel("b"), rows, styles=["again"])
    assert [(first.task, first.n, first.valid) for first in report.first] == [
        ("one", 1, 0),
        ("two", 1, 1),
        ("all", 1, 0),
    ]
    assert [(one.task, one.n) for one in report.by_task()] == [("one", 1), ("all", 1)]


def test_what_nothing_is_asked_after() -> None:
    """A refusal is a fault of the first reply, and no style asks again for it."""
    served: list[JSONObject] = []

    def refuse(request: JSONObject) -> JSONObject:
        served.append(request)
        return completion(assistant(refusal="No."))

    report = sr.measure(openai_client(refuse), ["x"], model="weak", answer=Person)
    assert (len(served), report.rows, report.recoveries) == (1, 1, ())
    assert (report.first[0].valid, sum(report.first[0].kinds.values())) == (0, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"styles": ["none of these"]},
        {"styles": []},
        {"styles": ["again", Style("again", STYLES["ours"].reask)]},
        {"rows": [{"task": "x"}]},
        {"rows": [""]},
        {"rows": [{"messages": "x", "task": 3}]},
        {"concurrency": 0},
        {"max_rows": -1},
        {"max_seconds": 0},
    ],
)
def test_a_wrong_setting_is_refused(wrong: dict[str, Any]) -> None:
    """What cannot be measured is refused before anything is asked."""
    model = WeakModel()
    with pytest.raises(ContractError):
        measured(model, **wrong)
    assert model.requests == []


def test_a_client_that_cannot_be_measured_is_refused() -> None:
    """A wrapped client would correct by itself, an async one is not asked in threads."""
    model = WeakModel()
    wrapped = sr.wrap(model.client(), answer=Person)
    for client in (wrapped, async_openai_client(model), object()):
        with pytest.raises(ContractError):
            sr.measure(client, ROWS, model="weak", answer=Person)
    assert model.requests == []


def test_good_is_good() -> None:
    """The replies that these tests take for good and bad are that."""
    contract = sr.Contract(answer=Person)
    verdicts = [contract.check(assistant(text)) for text in (GOOD, BAD)]
    assert [type(verdict) for verdict in verdicts] == [sr.Valid, sr.Invalid]
