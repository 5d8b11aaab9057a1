"""The pytest plugin, as a stranger's test suite uses it: each test here runs another pytest.

Most run it in this process, where what is imported already need not be imported again; where
another process is the point, or xdist or an event loop must have one to itself, they run it in one
of its own.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

pytestmark = pytest.mark.one_lane

APP = """
import json
import pytest
from strictreply.testing import faults, ok

TEA = [{"role": "user", "content": "tea"}]

def search(query: str, limit: int = 5) -> list[str]:
    return [query] * limit

def app(client):
    completion = client.chat.completions.create(model="m", messages=TEA)
    return search(**json.loads(completion.choices[0].message.tool_calls[0].function.arguments))
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite of somebody else's: its own configuration, warnings as errors."""
    pytester.makeini(
        "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"
    )
    return pytester


def run(suite: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    """Run the tests of an app in this process."""
    suite.makepyfile(test_app=APP + tests)
    return suite.runpytest_inprocess("-p", "no:cacheprovider", "--strict-markers", *options)


def run_apart(suite: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    """Run the tests of an app in a process of their own."""
    suite.makepyfile(test_app=APP + tests)
    return suite.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", *options)


def test_a_script_is_served_and_what_was_asked_is_there(suite: pytest.Pytester) -> None:
    """``llm`` serves its steps under the real SDK, one a request, and keeps the requests."""
    result = run(
        suite,
        """
def test_it(llm):
    llm.script(ok.call(search, query="x"), ok.call(search, query="y", limit=1))
    assert app(llm.openai()) == ["x"] * 5
    assert app(llm.client()) == ["y"]
    assert [request.messages for request in llm.requests] == [TEA] * 2
    llm.assert_spent()
""",
    )
    result.assert_outcomes(passed=1)


def test_an_app_on_the_responses_api_is_tested_alike(suite: pytest.Pytester) -> None:
    """The mark and ``llm`` serve the API by the path: the careless app fails, a guarded one does
    not.
    """
    result = run(
        suite,
        """
import strictreply as sr

TOOL = {"type": "function", **sr.Tool.of(search).definition["function"]}

def by_responses(client, ask="tea"):
    response = client.responses.create(model="m", input=ask, tools=[TOOL])
    calls = [item for item in response.output if item.type == "function_call"]
    return [search(**json.loads(call.arguments)) for call in calls]

MARK = pytest.mark.malformed(tools=[search], names=["wrong_type", "trailing_comma"])

@MARK
def test_careless(llm):
    with pytest.raises(ValueError):
        by_responses(llm.openai())

@MARK
def test_guarded(llm, no_backoff):
    assert by_responses(sr.wrap(llm.openai())) == [["text"] * 5]
    assert len(llm.requests) == 2
    assert llm.requests[1].correction
    llm.assert_no_echo()

def test_over_a_socket(llm, llm_server):
    import openai
    llm.script(ok.call(search, query="x"))
    with openai.OpenAI(base_url=llm_server.base_url, api_key="none") as client:
        assert by_responses(client) == [["x"] * 5]
    assert llm.requests[0].messages == [{"role": "user", "content": "tea"}]
""",
    )
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["failed"]) == (5, 2)
    result.stdout.fnmatch_lines(["FAILED *test_careless*wrong_type*"])


def test_a_script_that_is_spent_says_so(suite: pytest.Pytester) -> None:
    """A request too many is an HTTP 400 in the SDK's own words, and ``assert_spent`` names it."""
    result = run(
        suite,
        """
import openai

def test_it(llm):
    llm.script(ok.call(search, query="x"))
    app(llm.openai())
    with pytest.raises(openai.BadRequestError) as caught:
        app(llm.openai())
    assert caught.value.code == "script_spent"
    with pytest.raises(AssertionError):
        llm.assert_spent()
""",
    )
    result.assert_outcomes(passed=1)


def test_the_server_serves_the_same_script(suite: pytest.Pytester) -> None:
    """``llm_server`` is the script of ``llm`` at a base URL."""
    result = run(
        suite,
        """
import openai

def test_it(llm, llm_server):
    llm.script(ok.call(search, query="x", limit=2))
    with openai.OpenAI(base_url=llm_server.base_url, api_key="none") as client:
        assert app(client) == ["x", "x"]
    assert len(llm.requests) == 1
""",
    )
    result.assert_outcomes(passed=1)


MARKED = """
@pytest.mark.malformed(tools=[search], kinds=["args"])
def test_it(llm):
    with pytest.raises(ValueError):
        app(llm.openai())
"""


def test_a_marked_test_runs_once_per_fault(suite: pytest.Pytester) -> None:
    """``malformed`` makes a run of each fault of the tools, named by tool, fault and place."""
    listed = run_apart(suite, MARKED, "--collect-only", "-q")
    names = [
        line.partition("[")[2][:-1]
        for line in listed.outlines
        if line.startswith("test_app.py::test_it[")
    ]
    assert len(names) == len(set(names)) >= 10
    assert "search-wrong_type[/limit]" in names

    assert "search-missing_required[/query]" in names


def test_a_failure_tells_the_script_and_how_to_make_it_again(suite: pytest.Pytester) -> None:
    """The report of a failed run holds the step, what the app asked, and a line that scripts it
    again.
    """
    result = run(suite, MARKED, "-k", "wrong_type and limit", "-n", "0")
    assert result.parseoutcomes().get("failed", 0) >= 1
    told = result.stdout.str()
    assert "faults.wrong_type(search, '/limit'): a strict contract reports args.type" in told

    assert "request 1: 1 message -> wrong_type" in told
    assert (
        "llm.script(faults.wrong_type(search, '/limit'), then=ok.reply(search, after=ok.answer()))"
        in told
    )


def test_the_line_of_a_failure_reproduces_it(suite: pytest.Pytester) -> None:
    """The printed line, pasted into a test, serves the same reply."""
    result = run(
        suite,
        """
@pytest.mark.malformed(tools=[search])
def test_it(llm):
    before = llm.steps[0].served, llm.steps[0].code
    exec(llm.source)
    llm({"model": "m", "messages": TEA})
    assert (llm.steps[0].served, llm.steps[0].code) == before
""",
    )
    outcomes = result.parseoutcomes()
    assert outcomes.get("failed", 0) == 0
    assert outcomes["passed"] >= 50


def test_our_errors_tell_their_attempts(suite: pytest.Pytester) -> None:
    """When the wrapped client gives up inside a test, the report tells every attempt."""
    result = run(
        suite,
        """
import strictreply as sr

@pytest.mark.malformed(tools=[search], kinds=["args"], then=faults.missing_required(search))
def test_it(llm):
    sr.wrap(llm.openai(), tools=[search]).reply(model="m", messages=TEA)
""",
        *("-k", "null_value", "-n", "0"),
    )
    told = result.stdout.str()
    assert "Attempt 1" in told or "attempt 1" in told
    assert "args.required" in told


def test_the_wrapped_client_survives_all(suite: pytest.Pytester) -> None:
    """Under ``wrap`` the same app gets the good reply after every fault of its tool, or a clean
    error.
    """
    result = run(
        suite,
        """
import strictreply as sr

@pytest.mark.malformed(tools=[search])
def test_it(llm, no_backoff):
    client = sr.wrap(llm.openai(), tools=[search])
    try:
        reply = client.reply(model="m", messages=TEA, **llm.steps[0].needs)
        assert isinstance(reply, sr.ToolCall)
    except sr.ReplyHalted as error:
        assert error.reason in {"refusal", "content_filter"}
    llm.assert_no_echo()
""",
    )
    outcomes = result.parseoutcomes()
    assert outcomes.get("failed", 0) == 0
    assert outcomes["passed"] >= 100


ASYNC = """
import openai

async def ask(client):
    completion = await client.chat.completions.create(model="m", messages=TEA)
    return completion.choices[0].message.tool_calls[0].function.arguments
"""


def test_it_works_under_pytest_asyncio(suite: pytest.Pytester) -> None:
    """Async tests take the fixtures as they are: no HTTP, in memory and over the socket."""
    result = run(
        suite,
        ASYNC
        + """
@pytest.mark.asyncio
async def test_it(llm, llm_server):
    llm.script(then=ok.call(search, query="x"))
    assert await ask(llm.async_client()) == '{"query": "x"}'
    assert await ask(llm.async_openai()) == '{"query": "x"}'
    async with openai.AsyncOpenAI(base_url=llm_server.base_url, api_key="none") as client:
        assert await ask(client) == '{"query": "x"}'
""",
    )
    result.assert_outcomes(passed=1)


def test_it_works_under_anyio(suite: pytest.Pytester) -> None:
    """The anyio plugin runs them as well."""
    result = run(
        suite,
        ASYNC
        + """
@pytest.mark.anyio
@pytest.mark.malformed(tools=[search], kinds=["args"], then=ok.call(search, query="x"))
async def test_it(llm):
    await ask(llm.async_openai())
    assert await ask(llm.async_client()) == '{"query": "x"}'

@pytest.fixture
def anyio_backend():
    return "asyncio"
""",
    )
    assert result.parseoutcomes().get("failed", 0) == 0
    assert result.parseoutcomes()["passed"] >= 10


def test_a_mark_that_cannot_work_says_why(suite: pytest.Pytester) -> None:
    """Without the fixture, or without any fault, collection fails with one sentence."""
    result = run(
        suite,
        """
@pytest.mark.malformed(tools=[search])
def test_without_the_fixture():
    pass
""",
    )
    result.assert_outcomes(errors=1)
    assert "give the test the parameter llm or llm_server" in result.stdout.str()

    wrong = {
        "kinds=['args']": "no fault can be made",
        "[search]": "takes keywords",
        "tools=search": "a list",
        "tools=[search], kind=['args']": "did you mean kinds=?",
        "tools=[search], everything=True": "tools=, kinds=, names=, place=, request=, then=",
        "tools=[search], names=5": "names= must be a list",
        "tools=[search], request=5": "request= must be a dict",
        "tools=[search], then=search": "a script takes steps",
    }
    for words, told in wrong.items():
        result = run(suite, f"@pytest.mark.malformed({words})\ndef test_it(llm):\n    pass\n")
        result.assert_outcomes(errors=1)
        assert told in result.stdout.str()
        assert "scripts_of" not in result.stdout.str()
        assert "another exception occurred" not in result.stdout.str()


UNTESTED = {
    "no request": """
@pytest.mark.malformed(tools=[search], kinds=["args"])
def test_it(llm):
    pass
""",
    "only the server": """
@pytest.mark.malformed(tools=[search], kinds=["args"])
def test_it(llm_server):
    assert llm_server.base_url
""",
    "a fixture that is not used": """
@pytest.mark.malformed(tools=[search], kinds=["args"])
def test_it(llm_script):
    assert llm_script
""",
    "an error before it": """
@pytest.mark.malformed(tools=[search], kinds=["args"])
def test_it(llm):
    raise KeyError("settings")
""",
    "a request elsewhere": """
@pytest.mark.malformed(tools=[search], kinds=["args"])
def test_it(llm):
    with pytest.raises(Exception):
        llm.openai().embeddings.create(model="m", input="tea")
""",
    "a later step": """
@pytest.mark.malformed(tools=[search], kinds=["args"])
def test_it(llm):
    llm.script(ok.call(search, query="x"), llm.steps[0])
    app(llm.openai())
""",
    "an assertion before": """
@pytest.mark.malformed(tools=[search], kinds=["args"])
def test_it(llm):
    assert app is None
""",
}


@pytest.mark.parametrize("tests", UNTESTED.values(), ids=UNTESTED)
def test_a_fault_that_was_never_requested_fails_its_test(
    suite: pytest.Pytester, tests: str
) -> None:
    """No run of the mark survives a fault that was not served: one fails, and all are counted."""
    result = run(suite, tests, "-n", "0")
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == 1
    assert "passed" not in outcomes
    total = outcomes["failed"] + outcomes["not"]
    result.stdout.fnmatch_lines(
        [
            "what the app did: not served: *",
            f"{total} malformed replies to 1 test: 0 survived, 0 did not, {total} not served",
            "not served: *",
        ]
    )


def test_what_was_never_requested_is_in_the_report_of_ci(suite: pytest.Pytester) -> None:
    """The JUnit report has a failure whose message says that nothing was tested."""
    path = suite.path / "report.xml"
    run(suite, UNTESTED["no request"], "-n", "0", f"--junitxml={path}")
    (whole,) = ET.fromstring(path.read_text())  # noqa: S314 - our own file
    messages = [found.get("message", "") for found in whole.iter("failure")]
    assert len(messages) == 1
    assert "the fault wrong_type was never served" in messages[0]
    skips = {found.get("message") for found in whole.iter("skipped")}
    assert skips == {"the same cause as for search/query: not served"}


def test_a_test_may_skip_a_fault_that_its_app_rightly_never_requests(
    suite: pytest.Pytester,
) -> None:
    """A skipped run is not a failure, and does not count as survived either."""
    skipping = UNTESTED["a later step"].replace(
        "    app(llm.openai())",
        "    fault = llm.steps[1]\n"
        "    app(llm.openai())\n"
        "    if not llm.was_served(fault):\n"
        "        pytest.skip()",
    )
    result = run(suite, skipping, "-n", "0")
    outcomes = result.parseoutcomes()
    assert not outcomes.keys() & {"passed", "failed"}
    total = outcomes["skipped"]
    result.stdout.fnmatch_lines(
        [f"{total} malformed replies to 1 test: 0 survived, 0 did not, {total} skipped"]
    )


def test_a_step_that_does_not_fit_its_request_fails_the_test(suite: pytest.Pytester) -> None:
    """A test that expects the 400 of such a step has tested nothing; the failure names the step."""
    result = run(
        suite,
        """
import openai

def test_it(llm):
    llm.script({"stream": ["data: {}"]})
    with pytest.raises(openai.BadRequestError):
        app(llm.openai())
""",
        *("-n", "0"),
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the step * was not served: it does not fit request 1 *"])


def test_a_fault_of_an_earlier_script_was_served(suite: pytest.Pytester) -> None:
    """A test may begin a second script after the fault: it counts as survived."""
    result = run(
        suite,
        """
@pytest.mark.malformed(tools=[search], names=["missing_required"])
def test_it(llm):
    with pytest.raises(TypeError):
        app(llm.openai())
    llm.script(ok.call(search, query="x", limit=1))
    assert app(llm.openai()) == ["x"]
""",
        *("-n", "0"),
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 malformed reply to 1 test: 1 survived, 0 did not"])


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("faults.wrong_type(search)", "failed"),
        ("then=faults.wrong_type(search)", "failed"),
        ('{"body": "busy", "status": 503}', "passed"),
        ('ok.call(search, query="x"), faults.wrong_type(search)', "passed"),
        ('ok.call(search, query="x")', "passed"),
    ],
)
@pytest.mark.parametrize("mistake", ["pass", "llm({'model': 'm', 'messages': TEA})"])
def test_a_script_that_begins_with_a_fault_must_have_been_requested(
    suite: pytest.Pytester, script: str, outcome: str, mistake: str
) -> None:
    """Also without the mark; a fault after a good reply is one that the app may never reach. A
    raw reply may be good: the test itself says what the app must do.
    """
    is_served = mistake != "pass"
    tests = f"def test_it(llm):\n    llm.script({script})\n    {mistake}\n"
    run(suite, tests, "-n", "0").assert_outcomes(**{"passed" if is_served else outcome: 1})


def test_expected_failures_are_not_survived(suite: pytest.Pytester) -> None:
    """Runs of a test that is marked xfail are counted as such."""
    result = run(suite, f"@pytest.mark.xfail{MARKED}", "-n", "0")
    outcomes = result.parseoutcomes()
    assert "failed" not in outcomes
    total = outcomes["xfailed"] + outcomes.get("xpassed", 0)
    survived = outcomes.get("xpassed", 0)
    told = f"{total} malformed replies to 1 test: {survived} survived, 0 did not"
    result.stdout.fnmatch_lines([f"{told}, {outcomes['xfailed']} expected to fail"])


@pytest.mark.parametrize("chained", [False, True])
def test_an_error_of_the_guard_is_a_loud_refusal(suite: pytest.Pytester, chained: bool) -> None:
    """A failed call of strictreply, or the app's error that it caused, is not told as a crash."""
    call = "client.reply(model='m', messages=TEA)"
    if chained:
        call = (
            f"\n    try:\n        {call}\n"
            "    except sr.CallFailed as error:\n        raise KeyError('shop') from error"
        )
    tests = f"""
import strictreply as sr

@pytest.mark.malformed(tools=[search], kinds=["args"], then=faults.missing_required(search))
def test_it(llm):
    client = sr.wrap(llm.openai(), tools=[search])
    {call}
"""
    result = run(suite, tests, "-n", "0")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["what the app did: fails loudly: *", "fails loudly: *"])
    assert "crashes:" not in result.stdout.str()


def test_a_fixture_that_hides_ours_is_told(suite: pytest.Pytester) -> None:
    """A suite's own ``llm`` goes on working; under the mark the error says that it is not
    strictreply's.
    """
    suite.makeconftest("import pytest\n@pytest.fixture\ndef llm():\n    return 5\n")
    run(suite, "def test_it(llm):\n    assert llm == 5\n").assert_outcomes(passed=1)
    result = run(suite, "@pytest.mark.malformed(tools=[search])\ndef test_it(llm):\n    pass\n")
    result.assert_outcomes(errors=1)
    assert "another fixture of that name" in result.stdout.str()


def test_marks_add_up(suite: pytest.Pytester) -> None:
    """Each mark on a test, and that of its class, adds its faults; none is passed over."""
    tests = """
@pytest.mark.malformed(kinds=["envelope"])
class TestShop:
    @pytest.mark.malformed(tools=[search], kinds=["args"])
    @pytest.mark.malformed(tools=[search], kinds=["tool"])
    def test_it(self, llm):
        llm({"model": "m", "messages": TEA})
        print("kind:", llm.steps[0].kind)
"""
    told = run(suite, tests, "-s").stdout.str()
    assert all(f"kind: {kind}" in told for kind in ("args", "tool", "envelope"))


def test_without_backoff_the_sdk_retries_at_once(suite: pytest.Pytester) -> None:
    """``no_backoff`` takes the wait out of the SDK's retries, and only out of them."""
    result = run(
        suite,
        """
def test_it(llm, no_backoff):
    llm.script(faults.rate_limited_seconds(), ok.call(search, query="x", limit=1))
    assert app(llm.openai(max_retries=1)) == ["x"]
    assert len(llm.requests) == 2
""",
    )
    result.assert_outcomes(passed=1)


def test_the_plugin_costs_nothing_until_it_is_used(suite: pytest.Pytester) -> None:
    """A suite that uses none of it imports no SDK and no Hypothesis through us."""
    suite.makepyfile(
        test_other="""
import sys

def test_it():
    assert not {"openai", "hypothesis", "respx", "strictreply.testing.faults"} & set(sys.modules)
"""
    )
    suite.runpytest_subprocess("-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_an_endless_loop_fails_the_test(pytester: pytest.Pytester) -> None:
    """An app that swallows the end of its loop has failed all the same, and the report says why."""
    pytester.makepyfile(
        """
        from strictreply.testing import faults

        def search(query: str) -> None: ...

        def test_loops(llm):
            llm.script(then=faults.wrong_type(search), max_requests=3)
            tea = [{"role": "user", "content": "tea"}]
            for _ in range(5):
                try:
                    llm.client().chat.completions.create(model="m", messages=tea)
                except Exception:
                    pass
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*an endless loop*5 times*"])


SHOP = """
import json
import pytest

DONE = []

def search(query: str, limit: int = 5) -> None:
    DONE.append(query)

def status(order: int) -> None:
    DONE.append(order)

def cancel(order: int, refund: bool) -> None:
    DONE.append((order, refund))

def told(value, kind):
    if type(value) is not kind:
        raise ValueError(kind)
    return value

def strict(text):
    def once(pairs):
        if len(pairs) != len(dict(pairs)):
            raise ValueError("twice")
        return dict(pairs)
    text.encode()
    return json.loads(text, object_pairs_hook=once)

def app(client):
    messages = [{"role": "user", "content": "cancel it"}]
    completion = client.chat.completions.create(model="m", messages=messages)
    choice = completion.choices[0]
    if choice.finish_reason != "tool_calls":
        raise ValueError("no call")
    if len(choice.message.tool_calls) != 1 or choice.message.refusal:
        raise ValueError("no call")
    called = choice.message.tool_calls[0].function
    args = strict(called.arguments)
    known = {"search": {"query", "limit"}, "status": {"order"}, "cancel": {"order", "refund"}}
    if called.name not in known or type(args) is not dict or not set(args) <= known[called.name]:
        raise ValueError("not as declared")
    try:
        if called.name == "search":
            search(told(args["query"], str), told(args.get("limit", 5), int))
        elif called.name == "status":
            status(told(args["order"], int))
        else:
            cancel(told(args["order"], int), bool(args["refund"]))
    except KeyError:
        raise ValueError("missing") from None

@pytest.mark.malformed(tools=[search, status, cancel])
def test_nothing_runs(llm):
    DONE.clear()
    try:
        app(llm.openai())
    except ValueError:
        pass
    assert DONE == []
"""


def test_one_bug_is_one_failing_test(suite: pytest.Pytester) -> None:
    """``bool("false")`` in an app: one failure, few lines, and it shows the place."""
    suite.makepyfile(test_app=SHOP.replace("[search, status, cancel]", "[cancel]"))
    result = suite.runpytest_inprocess("-p", "no:cacheprovider", "-n", "0")
    outcomes = result.parseoutcomes()
    told = result.stdout.str()

    assert outcomes["failed"] == 1
    assert outcomes["same"] >= 5
    assert len(result.outlines) <= 120
    assert "args.type: cancel/refund" in told

    assert "faults.wrong_type(cancel, '/refund')" in told
    assert '"refund": ' in told


def test_all_reports_each_reply(suite: pytest.Pytester) -> None:
    """``--malformed=all`` makes each malformed reply a test that fails by itself, formal ones among
    them.
    """
    suite.makepyfile(test_app=SHOP)
    result = suite.runpytest_inprocess("-p", "no:cacheprovider", "-n", "0", "--malformed=all")
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] > 10
    assert "same" not in outcomes
    assert "null_call_id" not in result.stdout.str()
    assert "search-missing_choices" in result.stdout.str()


def test_each_cause_is_a_failing_test_also_under_xdist(suite: pytest.Pytester) -> None:
    """A crash in a function of its own is a cause of its own, and so is each tool whose faults fail
    the test's assertion; the workers' reports are put together.

    Workers collect the same runs in the same order, and a failure's section comes through.
    """
    crashing = SHOP.replace(
        "def status(order: int) -> None:", "def status(order: int) -> None:\n    1 / (order - 1)"
    )
    crashing = crashing.replace('status(told(args["order"], int))', 'status(args["order"])')
    suite.makepyfile(test_app=crashing)
    result = suite.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2")
    tools = ("cancel", "status", "search")
    causes = len(tools) + 1
    assert result.parseoutcomes()["failed"] == causes

    assert "Different tests were collected" not in result.stdout.str()
    assert result.stdout.str().count("llm.script(faults.") == causes
    heads = [line.partition(":")[0] for line in result.outlines if "; " in line]
    assert [head for head in heads if head in ("acts on invalid data", "crashes")] == [
        *["acts on invalid data"] * len(tools),
        "crashes",
    ]
    result.stdout.fnmatch_lines_random([f"acts on invalid data: *({tool})" for tool in tools])
