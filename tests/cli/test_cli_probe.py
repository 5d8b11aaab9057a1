"""``strictreply probe``: an app is probed from the outside.

The exit status, the tables and the files say how it went.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import strictreply
from strictreply.testing import LoopbackServer
from support.cli.running import Command, Process, Status
from support.testing.probing import sample_apps

pytestmark = pytest.mark.one_lane

SAMPLES = Path(sample_apps.__file__).parent
SOME = ("trailing_comma", "unknown_tool", "empty_choices")
# One job: a worker takes a second to begin.
CHOSEN = [*(word for name in SOME for word in ("--fault", name)), "--jobs", "1"]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the library and the sample apps importable in a worker."""
    folders = [SAMPLES, Path(strictreply.__file__).parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))


def test_a_careful_app_survives(command: Command) -> None:
    """The status is 0, stderr says what was tried, and the last lines are the verdict."""
    done = command("probe", "--app", "sample_apps:strict", *CHOSEN)
    assert done.exit_code == 0
    assert "refund" in done.stderr
    assert "Survived all 3 malformed replies" in done.stdout


def test_findings_are_told_in_every_form(command: Command, tmp_path: Path) -> None:
    """The status is 1; table, JSON, XML and page agree, and say how to look at a finding and
    reproduce it.
    """
    paths = {form: tmp_path / f"report.{form}" for form in ("json", "junit", "html")}
    files = [word for form, path in paths.items() for word in (f"--{form}", str(path))]
    done = command("probe", "--app", "sample_apps:careless", *CHOSEN, *files)
    assert done.exit_code == Status.INVALID

    assert all(
        f"strictreply faults --show {name}" in done.stdout
        for name in ("trailing_comma", "unknown_tool")
    )
    assert "llm.script(faults.unknown_tool(refund))" in done.stdout
    told = json.loads(paths["json"].read_text("utf-8"))
    assert (told["app"], told["outcomes"]["accepted"], told["outcomes"]["crashed"]) == (
        "sample_apps:careless",
        1,
        2,
    )

    assert ET.parse(paths["junit"]).getroot()[0].get("failures") == "3"  # noqa: S314 - our own XML
    assert "Did not survive 3 of 3" in paths["html"].read_text("utf-8")


def test_only_what_is_new_against_a_baseline_fails(command: Command, tmp_path: Path) -> None:
    """With the findings of an earlier report the status is 0; a finding that it does not hold makes
    it 1.
    """
    earlier = tmp_path / "earlier.json"
    words = ("probe", "--app", "sample_apps:careless")
    assert command(*words, *CHOSEN, "--json", str(earlier)).exit_code == Status.INVALID
    known = command(
        *words, *CHOSEN, "--baseline", str(earlier), "--json", str(tmp_path / "now.json")
    )
    assert known.exit_code == 0

    assert json.loads((tmp_path / "now.json").read_text("utf-8"))["baseline"] == {
        "new": [],
        "gone": [],
    }
    junit = tmp_path / "now.xml"
    more = command(
        *words, *CHOSEN, "--fault", "fenced", "--baseline", str(earlier), "--junit", str(junit)
    )
    assert more.exit_code == Status.INVALID

    assert (more.stdout.count(", 1 new"), known.stdout.count(", 1 new")) == (1, 0)
    assert ET.parse(junit).getroot()[0].get("failures") == "1"  # noqa: S314 - our own XML
    other = command("probe", "--app", "sample_apps:strict", *CHOSEN, "--baseline", str(earlier))
    assert (other.exit_code, "not of sample_apps:strict" in other.stderr) == (0, True)


ODD = json.dumps(
    {
        "app": "sample_apps:careless",
        "runs": [
            {
                "kind": "args",
                "outcome": "accepted",
                "fault": "x",
                "detail": "y",
                "code": 1,
                "source": "z",
            }
        ],
    }
)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "{}",
        "[",
        '{"runs": [{}]}',
        '{"runs": 1}',
        '{"runs": [{"kind": "x"}]}',
        ODD,
        "[" * 100_000,
    ],
)
def test_a_baseline_that_is_none_is_said_at_once(
    command: Command, tmp_path: Path, content: str | None
) -> None:
    """A file that is not there, or is no report, ends the command before the app runs: status 2."""
    earlier = tmp_path / "earlier.json"
    if content is not None:
        earlier.write_text(content, encoding="utf-8")
    done = command("probe", "--app", "sample_apps:careless", "--baseline", str(earlier))
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert "earlier.json" in done.stderr


def test_a_probe_that_tries_nothing_is_no_success(command: Command) -> None:
    """An app that does not stream survives no fault of streams: the status is 2, and stderr says
    so.
    """
    done = command("probe", "--app", "sample_apps:strict", "--kind", "stream")
    assert done.exit_code == Status.USAGE
    assert "none of the chosen faults" in done.stderr


def test_what_the_author_vouches_for_is_clean(command: Command) -> None:
    """``--clean`` names an exception that is no crash."""
    words = ("probe", "--app", "sample_apps:crashing", "--fault", "trailing_comma", "--jobs", "1")
    assert command(*words).exit_code == Status.INVALID
    assert command(*words, "--clean", "builtins:LookupError").exit_code == 0


HASTY = ("probe", "--app", "sample_apps:hasty_by_another_name", "--jobs", "1")
BAD_ARGS = ("--fault", "number_as_text")


def test_what_the_probe_cannot_see_is_not_clean(command: Command, tmp_path: Path) -> None:
    """An app whose handler has another name may have acted: status 3, with what to name."""
    reports = {form: tmp_path / f"report.{form}" for form in ("json", "junit", "html")}
    files = [word for form, path in reports.items() for word in (f"--{form}", str(path))]
    done = command(*HASTY, *BAD_ARGS, *files)
    assert done.exit_code == Status.FAILED
    assert "Survived" not in done.stdout
    assert "--ran NAME" in done.stdout
    assert "pay_back" in done.stdout

    told = json.loads(reports["json"].read_text("utf-8"))
    assert (told["survived"], told["outcomes"]["unknown"], told["outcomes"]["clean"]) == (
        False,
        1,
        0,
    )
    suite = ET.parse(reports["junit"]).getroot()[0]  # noqa: S314 - our own XML
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    assert "nobody can see" in reports["html"].read_text("utf-8")

    known = command(*HASTY, *BAD_ARGS, "--baseline", str(reports["json"]))
    assert known.exit_code == 0


@pytest.mark.parametrize(
    ("app", "name", "status"),
    [
        ("hasty_by_another_name", "pay_back", Status.INVALID),
        ("careful_by_another_name", "pay_back", 0),
    ],
)
def test_the_user_names_what_acts(command: Command, app: str, name: str, status: int) -> None:
    """With ``--ran`` an app that acts first is a finding, and one that judges first survives."""
    words = ("probe", "--app", f"sample_apps:{app}", "--jobs", "1", *BAD_ARGS, "--ran", name)
    done = command(*words)
    assert done.exit_code == status
    assert ("ran pay_back with a reply that it refused later" in done.stdout) is bool(status)


def test_a_name_that_never_ran_is_refused(command: Command) -> None:
    """``--ran`` of a function that no good reply starts is wrong usage; those that ran are told."""
    done = command(*HASTY, *BAD_ARGS, "--ran", "refund_order")
    assert done.exit_code == Status.USAGE
    assert "--ran refund_order" in done.stderr
    assert "pay_back" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--app"),
        (["--app", "a:b", "--endpoint", "http://127.0.0.1:1/"], "--app"),
        (["--app", "sample_apps"], "module:callable"),
        (["--app", "sample_apps:strict", "--fault", "trailing_coma"], "trailing_comma"),
        (["--app", "sample_apps:strict", "--kind", "finnish"], "finish"),
        (["--app", "sample_apps:strict", "--good", "{"], "--good"),
        (
            ["--app", "sample_apps:strict", "--answer", "no_such_module:Kind"],
            "--answer no_such_module:Kind",
        ),
        (["--app", "sample_apps:strict", "--html", "no/such/folder/report.html"], "folder"),
        (["--endpoint", "http://127.0.0.1:1/"], "--listen"),
        (["--endpoint", "http://example.com/", "--listen", "9"], "loopback"),
        (["--endpoint", "http://127.0.0.1:1/", "--listen", "9", "--body", "{"], "--body"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_run(
    command: Command, words: list[str], said: str
) -> None:
    """Options that do not say what is to be probed end with 2 and what to give."""
    done = command("probe", *words)
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert said in done.stderr


MODULES = {
    "boom.py": "raise ValueError('first line\\nsecond line')\n",
    "leaves.py": "raise SystemExit(0)\n",
    "lacks.py": "import no_such_library\n",
    "broken.py": "x = (\n",
    "mod.py": "def app(base_url): ...\ndef needy(a, b): ...\nNUMBER = 3\n",
}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--app", "nope:x"], "set PYTHONPATH"),
        (["--app", "nope.inner:x"], "set PYTHONPATH"),
        (["--app", "boom:x"], "ValueError at boom.py:1: first line; see it with"),
        (["--app", "leaves:x"], "SystemExit at leaves.py:1: 0; see it with"),
        (["--app", "lacks:x"], "'no_such_library'; install it"),
        (["--app", "broken:x"], "SyntaxError"),
        (["--app", "mod:apq"], "did you mean app?"),
        (["--app", "mod:NUMBER"], "of type int, which cannot be called"),
        (["--app", "mod:needy"], "must take the base URL or no arguments, not a, b"),
        (["--app", "mod:app", "--clean", "nope:X"], "--clean nope:X"),
        (["--app", "mod:app", "--clean", "mod:app"], "--clean mod:app: it must be the class"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_told_on_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    """The line says what is wrong and what to do; there is no traceback, and the status is 2."""
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = command("probe", *words)
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("app", "said"),
    [("no_such_module:app", "ModuleNotFoundError"), ("sample_apps:never_asking", "base URL")],
)
def test_an_app_that_does_not_work_is_wrong_usage(command: Command, app: str, said: str) -> None:
    """An app that cannot be imported or sends no request cannot be probed: status 2, with the
    reason.
    """
    done = command("probe", "--app", app)
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert said in done.stderr


class Service(BaseHTTPRequestHandler):
    """A service in front of an app: its base URL was set when it was started."""

    base_url = ""

    def do_POST(self) -> None:
        """Answer with the app's result, or with an error of its own."""
        self.rfile.read(int(self.headers["Content-Length"]))

        try:
            status = 200
            body = json.dumps(sample_apps.strict(self.base_url))
        except sample_apps.Refused:
            status = 502
            body = json.dumps({"error": "bad reply"})

        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        """Be quiet."""


@pytest.fixture
def service() -> Iterator[tuple[str, int]]:
    """Run the service; gives its address, and the port where it looks for the model."""
    with LoopbackServer(lambda _: None) as free:
        port = free.port
    Service.base_url = f"http://127.0.0.1:{port}/v1"
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/ask", port
        server.shutdown()


def test_a_running_service_is_probed(command: Command, service: tuple[str, int]) -> None:
    """Each run is a POST; an error with a JSON body is a refusal, which is clean where the reply
    could start nothing: whether the service acted on another is unknown, which is status 3.
    """
    address, port = service
    done = command(
        "probe", "--endpoint", address, "--listen", str(port), "--body", '{"order": 7}', *CHOSEN
    )
    assert done.exit_code == Status.FAILED
    assert "No finding in 3 malformed replies. Of 1 it is unknown" in done.stdout
    assert "its code cannot be seen" in done.stdout


def test_an_interrupted_probe_tells_what_it_has(process: Process, tmp_path: Path) -> None:
    """Ctrl-C ends with 130, one line, no traceback, and the report so far, marked as incomplete."""
    path = tmp_path / "report.json"
    words = ("--app", "sample_apps:stuck", "--timeout", "60", "--json", str(path))
    started: subprocess.Popen[str] = process("probe", *words, *CHOSEN)
    assert started.stderr is not None

    # the first finding; at the second reply it hangs
    assert any("KeyError" in line for line in started.stderr)
    started.send_signal(signal.SIGINT)
    _, stderr = started.communicate(timeout=60)
    assert started.returncode == Status.INTERRUPTED

    assert stderr.splitlines()[-1].startswith("strictreply: interrupted")
    assert "Traceback" not in stderr
    told = json.loads(path.read_text("utf-8"))
    assert (told["complete"], told["survived"], told["outcomes"]["crashed"]) == (False, False, 1)


def test_an_app_on_the_responses_api_is_probed_alike(command: Command, tmp_path: Path) -> None:
    """The server knows the API by its path: a careless reader of a truth value is found, a wrapped
    client survives.
    """
    chosen = (
        "--fault",
        "boolean_as_text",
        "--fault",
        "extra_key",
        "--fault",
        "trailing_comma",
        "--jobs",
        "1",
        "--json",
    )
    careless = command(
        "probe",
        "--app",
        "sample_apps:careless_by_responses",
        *chosen,
        str(tmp_path / "careless.json"),
    )
    assert careless.exit_code == Status.INVALID
    assert "llm.script(faults.boolean_as_text(notify" in careless.stdout

    guarded = command(
        "probe",
        "--app",
        "sample_apps:guarded_by_responses",
        *chosen,
        str(tmp_path / "guarded.json"),
    )
    assert guarded.exit_code == 0
    assert (
        json.loads((tmp_path / "guarded.json").read_text("utf-8"))["outcomes"].get("accepted", 0)
        == 0
    )
