"""``strictreply demo`` and ``serve-demo``: the story of every question is shown.

It goes from the first reply to what became of the question.
"""

from __future__ import annotations

import re
import socket

import pytest

from cli.running import Command, Serve, answering
from openai_shapes import call, completion, message
from strictreply.cli._model_commands import PROGRAM
from strictreply.cli._terminal import Status
from strictreply.testing._wire import error_reply
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.testing.unreliable import UnreliableModel

QUESTIONS = [question.text for question in SCENARIO.questions]
CONCLUSION = re.compile(
    r"(?P<questions>\d+) questions, (?P<asks>\d+) asks: (?P<once>\d+) valid at once, "
    r"(?P<mended>\d+) mended, (?P<rejected>\d+) rejected(?:, (?P<failed>\d+) failed)?\.\n"
    r"(?P<bad>\d+) of the replies did not fit"
)


def counted(output: str) -> dict[str, int]:
    """Read the numbers of the last sentences."""
    found = CONCLUSION.search(output)
    assert found is not None, output
    return {name: int(number or 0) for name, number in found.groupdict().items()}


@pytest.mark.parametrize("columns", [80, 160])
def test_the_first_screen_fits(
    command: Command, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """At most 40 lines: the program, three stories, a table and the next command; whatever the
    environment names.
    """
    monkeypatch.setenv("OPENAI_BASE_URL", "http://model.invalid/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    done = command("demo", COLUMNS=str(columns))
    lines = done.stdout.splitlines()

    assert done.exit_code == 0
    assert len(lines) <= 40
    assert max(map(len, lines)) <= columns
    assert "\n".join(line[4:] for line in lines[:11]) == PROGRAM.strip()
    rows = [re.split(r" {2,}", line.strip()) for line in lines if re.match(r"[123]  {4}", line)]
    assert [(row[1], row[2], row[3], row[5]) for row in rows] == [
        ("mended", "2", "args.type", "1"),
        ("kept and mended", "2", "args.extra_key", "2"),
        ("refused", "4", "args.required", "0"),
    ]

    assert lines[-1].endswith("strictreply probe --app yourmodule:function")


@pytest.mark.parametrize("channel", ["native", "text"])
def test_every_question_is_asked_and_told(command: Command, channel: str) -> None:
    """The embedded model's bad replies are shown, mended or rejected, and the sums agree with what
    was shown.
    """
    done = command("demo", "--questions", "--channel", channel, "--failure-rate", "1")
    assert done.exit_code == 0
    assert all(done.stdout.count(question) >= 1 for question in QUESTIONS)
    sums = counted(done.stdout)
    assert sums["questions"] == len(QUESTIONS)

    assert sums["once"] + sums["mended"] + sums["rejected"] == len(QUESTIONS)
    assert (sums["mended"] > 1, sums["rejected"] >= 1) == (True, True)
    assert len(re.findall(r"^  came ", done.stdout, re.MULTILINE)) == sums["asks"]
    assert len(re.findall(r"^  valid ", done.stdout, re.MULTILINE)) == sums["asks"] - sums["bad"]

    assert len(re.findall(r"^  ended ", done.stdout, re.MULTILINE)) == sums["rejected"]


def test_a_model_without_faults_is_valid_at_once(command: Command) -> None:
    """With no failures nothing is refused, every call runs and every answer is shown."""
    done = command("demo", "--questions", "--failure-rate", "0")
    assert counted(done.stdout)["once"] == len(QUESTIONS)
    assert "  wrong" not in done.stdout
    calls = sum(len(question.calls) for question in SCENARIO.questions)
    answers = sum(1 for question in SCENARIO.questions if not question.calls)
    assert len(re.findall(r"^  ran ", done.stdout, re.MULTILINE)) == calls
    assert len(re.findall(r"^  said ", done.stdout, re.MULTILINE)) == answers


def test_the_same_seed_tells_the_same_story(command: Command, serve: Serve) -> None:
    """A real endpoint with the same model gives the same story as the embedded one, but for its
    first line.
    """
    embedded = command("demo", "--questions", "--seed", "3").stdout.splitlines()
    real = command(
        "demo", "--base-url", serve(UnreliableModel(SCENARIO, seed=3))
    ).stdout.splitlines()
    assert embedded[1:] == real[1:]
    assert embedded[0] != real[0]
    assert command("demo", "--questions", "--seed", "4").stdout.splitlines()[1:] != embedded[1:]


def test_the_summary_fits_a_small_terminal(command: Command) -> None:
    """On 80 columns no line is wider, and each question still has one row."""
    lines = command("demo", "--questions", COLUMNS="80").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    rows = lines[
        next(index for index, line in enumerate(lines) if line.startswith("question")) + 2 :
    ]
    assert [row[:20] for row in rows[: len(QUESTIONS)]] == [question[:20] for question in QUESTIONS]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_an_endpoint_that_cannot_be_used_ends_the_demo(
    command: Command, serve: Serve, status: int
) -> None:
    """A failure that every question would meet ends the demo at the first one, with status 1."""
    done = command("demo", "--base-url", serve(answering(error_reply(status, "no"))))
    assert done.exit_code == Status.FAILED
    assert QUESTIONS[0] in done.stdout
    assert QUESTIONS[1] not in done.stdout
    assert f"HTTP {status}" in done.stderr


def test_what_only_one_question_met_is_in_its_row(command: Command, serve: Serve) -> None:
    """A request that the server refuses fails alone; the demo goes on, and ends well when anything
    was answered.
    """
    url = serve(answering(error_reply(400, "no"), completion(message("hi"))))
    done = command("demo", "--base-url", url)
    assert done.exit_code == 0
    assert (counted(done.stdout)["failed"], counted(done.stdout)["once"]) == (1, len(QUESTIONS) - 1)


def test_a_demo_without_any_reply_failed(command: Command, serve: Serve) -> None:
    """When every question failed the status is 1."""
    done = command("demo", "--base-url", serve(answering(error_reply(400, "no"))))
    assert (done.exit_code, counted(done.stdout)["failed"]) == (Status.FAILED, len(QUESTIONS))


def test_a_tool_that_raises_is_a_result(command: Command, serve: Serve) -> None:
    """Valid arguments that a tool cannot serve show its error, and the demo goes on."""
    args = {"title": "x", "start": "9999-12-31T23:59:59Z", "minutes": 480, "attendees": []}
    done = command(
        "demo",
        "--base-url",
        serve(answering(completion(message(calls=[call("schedule_meeting", args)])))),
    )
    assert done.exit_code == 0
    assert done.stdout.count("OverflowError") == len(QUESTIONS)


def test_what_a_model_wrote_does_not_act(command: Command, serve: Serve) -> None:
    """Control sequences in answers and arguments are printed as characters."""
    hostile = "\x1b[2J[red]x\u202e\nforged"
    for response in (message(hostile), message(calls=[call("get_weather", {"city": hostile})])):
        done = command("demo", "--base-url", serve(answering(completion(response))))
        assert done.exit_code == 0
        assert all(line.isprintable() for line in done.stdout.splitlines())
        assert not any(line.startswith("forged") for line in done.stdout.splitlines())


def test_a_port_in_use_is_told(command: Command) -> None:
    """``serve-demo`` on a port that somebody has ends with 1 and one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = command("serve-demo", "--port", str(taken.getsockname()[1]))
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (Status.FAILED, "", 1)
