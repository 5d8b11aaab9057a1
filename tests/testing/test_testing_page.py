"""What docs/testing.md promises holds: its programs are run as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from strictreply.testing.probing import Probe
from strictreply.testing.subjects import as_process

pytestmark = pytest.mark.one_lane

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
SHOWN = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)


def code_lines(block: str) -> list[str]:
    """Return the lines of a block that are not blank."""
    return [line for line in block.splitlines() if line.strip()]


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A newcomer's folder: nothing in it."""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def test_ten_lines_catch_the_bug(suite: pytest.Pytester) -> None:
    """The first program, at most ten lines, fails once for each cause, and prints what the page
    shows.
    """
    assert len(code_lines(BLOCKS[0])) <= 10
    suite.makepyfile(test_shop=BLOCKS[0])
    result = suite.runpytest_inprocess("-p", "no:cacheprovider", "-n", "0")
    outcomes = result.parseoutcomes()
    told = result.stdout.str()
    assert (outcomes["failed"], outcomes["same"]) == (2, 26)
    assert [line for shown in SHOWN[:3] for line in code_lines(shown) if line not in told] == []


def test_the_wrapped_app_passes_the_same_test(suite: pytest.Pytester) -> None:
    """Around the same app, the wrapped client turns every one of these faults into a good reply."""
    suite.makepyfile(test_shop=BLOCKS[0].partition("@pytest.mark")[0] + BLOCKS[1])
    outcomes = suite.runpytest_inprocess("-p", "no:cacheprovider", "-n", "0").parseoutcomes()
    shown = SHOWN[3].split()
    assert shown == [str(outcomes["passed"]), *outcomes], "write the count on the page"


def test_the_script_of_the_page_runs(suite: pytest.Pytester) -> None:
    """The second program holds for an app that corrects its model."""
    app = BLOCKS[0].partition("@pytest.mark")[0].replace("def app(", "def trusting(")
    wrapped = (
        "\nimport strictreply as sr\n\n"
        "def app(client):\n    return trusting(sr.wrap(client, tools=[search]))\n\n"
    )
    suite.makepyfile(test_shop=app + wrapped + BLOCKS[2])
    suite.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_an_unchanged_program_is_tested(suite: pytest.Pytester) -> None:
    """A program that makes its own client fails over the loopback server for the causes of the
    first test.
    """
    program = next(block for block in BLOCKS if "OPENAI_BASE_URL" in block)
    suite.makepyfile(test_shop=BLOCKS[0].partition("@pytest.mark")[0] + program)
    outcomes = suite.runpytest_inprocess("-p", "no:cacheprovider", "-n", "0").parseoutcomes()
    assert (outcomes["failed"], outcomes["same"]) == (2, 26)


def test_an_app_of_text_is_tested(suite: pytest.Pytester) -> None:
    """The mark without tools: the guarded app passes with the count of the page, the raw one does
    not, and its empty and cut texts are named.
    """
    program = next(block for block in BLOCKS if "Tea for two" in block)
    shown = next(block for block in SHOWN if block.split() == ["49", "passed"])
    suite.makepyfile(test_shop=program)
    outcomes = suite.runpytest_inprocess("-p", "no:cacheprovider", "-n", "0").parseoutcomes()
    assert outcomes == {"passed": int(shown.split()[0])}

    suite.makepyfile(test_shop=program.replace("sr.wrap(llm.openai())", "llm.openai()"))
    result = suite.runpytest_inprocess("-p", "no:cacheprovider", "-n", "0")
    result.stdout.re_match_lines(
        [
            r"acts on invalid data: .*reply\.truncated\b",
            r"accepts silently: .*reply\.[\w/]*\bempty\b",
            r"crashes: ",
        ]
    )


def test_the_workflow_keeps_what_a_run_writes(suite: pytest.Pytester) -> None:
    """Its command writes the files that it uploads, and it installs as the page does."""
    (workflow,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    (command,) = re.findall(r"run: pytest (.*)", workflow)
    kept = re.findall(r"^ {12}(\S+)$", workflow, flags=re.MULTILINE)
    assert len(kept) == 2
    suite.makepyfile(test_shop=BLOCKS[0])
    suite.runpytest_inprocess("-n", "0", *command.split())
    assert [(suite.path / path).is_file() for path in kept] == [True, True]
    assert "pip install './strictreply[testing]'" in workflow


RECORDED = """
def test_a_recording_is_judged_again(llm, tmp_path):
    path = str(tmp_path / "shop.jsonl")
    llm.script(faults.wrong_type(search, "limit"), ok.call(search, query="tea"))
    client = sr.wrap(record(llm.openai(), path), tools=[search])
    client.reply(model="m", messages="tea, please")
    assert [type(verdict).__name__ for verdict in verdicts(path)] == ["Invalid", "Valid"]
"""


def test_the_recording_of_the_page_is_a_regression_test(suite: pytest.Pytester) -> None:
    """What ``record`` wrote under a wrapped client is judged offline as it was at the time."""
    program = next(block for block in BLOCKS if "def verdicts" in block)
    begin = BLOCKS[0].partition("@pytest.mark")[0]
    imports = "from strictreply.testing import faults, ok, record\n"
    suite.makepyfile(test_shop=f"{begin}\n{imports}{program}\n{RECORDED}")
    suite.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


SHOP = """
import json
from openai import OpenAI


def search(query: str) -> None:
    \"\"\"Search the shop.\"\"\"


TOOL = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def ask(base_url):
    client = OpenAI(base_url=base_url, api_key="none", max_retries=0)
    tools = [{"type": "function", "function": {"name": "search", "parameters": TOOL}}]
    turns = [{"role": "user", "content": "tea, please"}]
    reply = client.chat.completions.create(model="any", messages=turns, tools=tools)
    search(**json.loads(reply.choices[0].message.tool_calls[0].function.arguments))
    return "done"
"""


def test_the_programs_that_check_and_probe_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands check, probe and faults as functions: each tells what its command tells."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "shop.py").write_text(SHOP)
    record = {"mode": "tools", "reply": {"tool_calls": [{"name": "search", "arguments": "{}"}]}}
    (tmp_path / "shop.jsonl").write_text(json.dumps(record))

    names: dict[str, object] = {"search": search}
    asked = re.compile(r"check_files|\bprobe = Probe\(|specimen\(")
    programs = [block for block in BLOCKS if asked.search(block)]
    assert len(programs) == 3
    for program in programs:
        exec(compile(program, "page", "exec", dont_inherit=True), names)  # noqa: S102

    assert capsys.readouterr().out.splitlines()[:3] == [
        "1 of 1 {'args.required': 1}",
        "Did not survive 1 of 1 malformed replies: 1 crashed it.",
        "crashed faults.missing_required(search, '/query')",
    ]
    assert "args.required" in (tmp_path / "shop.html").read_text()
    assert "missing_required" in (tmp_path / "report.html").read_text()


def test_an_effect_that_is_named_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The app and the probe of the page print what it shows: the app paid, and refused later."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    app = next(block for block in BLOCKS if "class Payments" in block)
    (tmp_path / "refunds.py").write_text(app)
    program = next(block for block in BLOCKS if "effect_probe" in block)
    shown = next(block for block in SHOWN if "tool_run_on_refused_reply" in block)

    exec(compile(program, "page", "exec"), {"Probe": Probe, "as_process": as_process})  # noqa: S102
    assert capsys.readouterr().out == shown


def search(query: str, limit: int = 5) -> None:
    """Search the shop."""


ANY_SPEED = """
from hypothesis import HealthCheck, settings

settings.register_profile("any speed", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("any speed")
"""


def test_hypothesis_of_the_page_runs(suite: pytest.Pytester) -> None:
    """The Hypothesis program collects and runs."""
    program = next(block for block in BLOCKS if "strategies" in block)
    suite.makepyfile(test_shop=f"{ANY_SPEED}\n{BLOCKS[0].partition('@pytest.mark')[0]}\n{program}")
    suite.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"\b(?:faults|ok|mounting|strategies)\.(\w+)", PAGE)) - {"md"})
)
def test_every_name_of_the_page_exists(name: str) -> None:
    """Nothing is promised that is not there."""
    # Only this test needs them all.
    from strictreply.testing import faults, mounting, ok, strategies  # noqa: PLC0415

    assert any(hasattr(room, name) for room in (faults, mounting, ok, strategies))
