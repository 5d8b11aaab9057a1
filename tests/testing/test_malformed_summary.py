"""The end of a run with malformed replies: ten lines that say what failed and how to go on."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from strictreply.testing._malformed_summary import (
    LOUD,
    NOT_SERVED,
    WIDTH,
    FailedRun,
    Fate,
    causes_of,
    summary,
    whole_report,
)
from strictreply.testing._steps import Harm

MOST_LINES = 10
PLANTED = """
import json
import pytest

RAN = []

def refund(order: int, amount: float, notify: bool = False) -> None:
    RAN.append(order)

def app(client):
    messages = [{"role": "user", "content": "refund it"}]
    completion = client.chat.completions.create(model="m", messages=messages)
    args = json.loads(completion.choices[0].message.tool_calls[0].function.arguments)
    if type(args.get("order")) is not int or type(args.get("amount")) not in (int, float):
        raise ValueError("refused")
    if not {"order", "amount", "notify"}.issuperset(args):
        raise ValueError("refused")
    refund(args["order"], args["amount"], bool(args.get("notify")))  # the planted bug

@pytest.mark.malformed(tools=[refund], kinds=["args"])
def test_nothing_runs(llm):
    RAN.clear()
    try:
        app(llm.openai())
    except ValueError:
        pass
    assert RAN == []
"""


def of_summary(lines: list[str]) -> list[str]:
    """The lines of our section, its title first."""
    title = next(number for number, line in enumerate(lines) if " malformed replies " in line)
    rest = lines[title + 1 :]
    ends = (number for number, line in enumerate(rest) if line.startswith("="))
    return [lines[title], *filter(None, rest[: next(ends, len(rest))])]


@pytest.mark.one_lane
@pytest.mark.slow
def test_a_planted_bug_is_told_in_ten_lines_with_its_command(pytester: pytest.Pytester) -> None:
    """The summary has the counts, the code and its places, the whole report, and a command that
    fails alike when it is run, and leaves that report.
    """
    pytester.makepyfile(test_shop=PLANTED)
    result = pytester.runpytest_subprocess("-n", "0")
    told = of_summary(result.outlines)
    assert len(told) <= MOST_LINES
    assert max(map(len, told)) <= WIDTH

    passed = result.parseoutcomes()["passed"]
    same = result.parseoutcomes()["same"]
    assert told[1] == (
        f"{passed + same + 1} malformed replies to 1 test: {passed} survived, {same + 1} did not"
    )
    assert told[2].startswith("acts on invalid data: AssertionError at test_shop.py:")
    assert told[3].startswith("    args.type: refund/notify")

    command = next(line for line in told if line.startswith("pytest "))
    words = shlex.split(command)[1:]
    again = subprocess.run([sys.executable, "-m", "pytest", *words, "-n", "0"], check=False)
    assert again.returncode == pytest.ExitCode.TESTS_FAILED

    path = Path(told[-1].removeprefix("all of them: "))
    report = path.read_text(encoding="utf-8")
    assert report.count("pytest 'test_shop.py::test_nothing_runs[") == same + 1


@pytest.mark.one_lane
def test_a_run_that_all_survive_is_one_line(pytester: pytest.Pytester) -> None:
    """Where nothing failed the summary says how many replies there were."""
    fixed = PLANTED.replace(
        "    refund(args",
        '    if type(args.get("notify", False)) is not bool:\n'
        '        raise ValueError("refused")\n'
        "    refund(args",
    )
    pytester.makepyfile(test_shop=fixed)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-n", "0")
    told = of_summary(result.outlines)
    passed = result.parseoutcomes()["passed"]
    assert told[1:] == [f"{passed} malformed replies to 1 test: {passed} survived, 0 did not"]


@pytest.mark.parametrize("tests", [1, 2])
@pytest.mark.parametrize("name", ["refund", "refund_an_order_of_a_customer"])
def test_bugs_of_two_tools_are_two_causes(tests: int, name: str) -> None:
    """Where the faults of two tools fail one assertion, each tool is a cause, and its line says so;
    an exception of the app at one place is one cause for all tools.
    """
    tools = (name, "cancel")
    asserted = [failed(number, kind=Harm.ACTS) for number in range(tests) for _ in tools]
    runs = [replace(run, tool=tool) for run, tool in zip(asserted, tools * tests, strict=True)]
    crashed = [replace(failed(9), tool=tool) for tool in tools]
    causes = causes_of([*runs, *crashed])
    assert len(causes) == 2 * tests + 1

    lines = summary([(run.test, Fate.FAILED) for run in runs], causes, "")
    heads = [line for line in lines if line.startswith(Harm.ACTS)]
    assert [line.rpartition("(")[2] for line in heads] == [f"{tool})" for tool in tools] * tests


def failed(
    number: int,
    words: str = "Error at a.py:1",
    kind: str = Harm.CRASHES,
    code: str = "args.type",
) -> FailedRun:
    """One failure of a cause with this number."""
    nodeid = f"tests/test_{number}.py::test[tool-fault_{number}]"
    return FailedRun(nodeid, kind, str(number), words, code, f"tool/member_{number}", "tool")


@pytest.mark.parametrize("causes", [1, 2, 3, 40])
@pytest.mark.parametrize("words", ["Error at a.py:1", "Error at " + "folder/" * 40 + "a.py:1"])
def test_any_number_of_causes_fits(causes: int, words: str) -> None:
    """Whatever their number and names are: ten lines with the title, none wider than a terminal of
    80 columns; causes without room are counted.
    """
    runs = [failed(number, words) for number in range(causes) for _ in range(9)]
    lines = summary([(run.test, Fate.FAILED) for run in runs], causes_of(runs), "report.txt")
    assert len(lines) + 1 <= MOST_LINES
    assert all(len(line) <= WIDTH for line in lines)
    shown = sum(line.startswith("crashes: ") for line in lines)
    others = [line for line in lines if "other cause" in line]
    assert [line.split()[1] for line in others] == [str(causes - shown)] * (shown < causes)


def test_the_worst_cause_comes_first_and_is_the_one_to_run() -> None:
    """Causes are ordered by harm; the command runs the first failure of the first of them."""
    kinds = (Harm.CRASHES, Harm.ACTS, NOT_SERVED, Harm.LEAKS, LOUD)
    runs = [failed(number, kind=kind) for number, kind in enumerate(kinds)]
    causes = causes_of(runs)
    assert [cause[0].kind for cause in causes] == [
        Harm.ACTS,
        Harm.CRASHES,
        Harm.LEAKS,
        LOUD,
        NOT_SERVED,
    ]
    assert runs[1].command in summary([("a", Fate.FAILED)], causes, "")
    report = whole_report(causes, datetime(2026, 1, 31, 9, 5, tzinfo=UTC))
    assert report.startswith("run of 2026-01-31 09:05\n")
    assert all(run.command in report for run in runs)


CODES = [f"{family}.{name}" for family in ("args", "envelope") for name in "abcdefghijklmn"]


@pytest.mark.parametrize("causes", [1, 2, 3, 5, 9])
def test_no_family_of_codes_is_left_out(causes: int) -> None:
    """However many codes a cause has, each family of them is in the lines of the causes."""
    codes = [*CODES, "reply.empty"]
    runs = [failed(number, code=code) for number in range(causes) for code in codes]
    lines = summary([(run.test, Fate.FAILED) for run in runs], causes_of(runs), "report.txt")
    assert len(lines) + 1 <= MOST_LINES
    told = "\n".join(lines)
    assert told.count("reply.empty") == min(causes, 5)
    assert told.count("envelope.") >= min(causes, 5)


def test_several_causes_have_a_line_each_with_their_codes() -> None:
    """A cause of few replies is not hidden behind those of many."""
    runs = [failed(1, code=code) for code in CODES]
    runs += [failed(2, kind=Harm.ACTS), failed(3, kind=Harm.ACCEPTS, code="reply.empty")]
    told = summary([(run.test, Fate.FAILED) for run in runs], causes_of(runs), "")[1:5]
    kinds = [Harm.ACTS, Harm.ACCEPTS, Harm.CRASHES]
    assert [line.split(":")[0] for line in told[:3]] == kinds
    assert "args.type" in told[0]
    assert "reply.empty" in told[1]
    assert "envelope.*" in told[3]


@pytest.mark.one_lane
def test_a_cache_that_cannot_be_made_is_told_in_a_line(pytester: pytest.Pytester) -> None:
    """The run goes on, and the summary says that the report was not written."""
    pytester.makepyfile(test_shop=PLANTED)
    (pytester.path / "taken").write_text("a file")
    pytester.makeini("[pytest]\ncache_dir = taken/below\n")
    result = pytester.runpytest_inprocess("-n", "0", "-W", "ignore::pytest.PytestCacheWarning")
    assert result.parseoutcomes()["failed"] == 1
    told = of_summary(result.outlines)
    assert len(told) <= MOST_LINES
    assert told[-1].startswith("all of them: not written")
    assert "Traceback" not in result.stderr.str()
    assert "INTERNALERROR" not in result.stdout.str()
