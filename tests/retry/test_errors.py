"""Errors are values that can be stored: JSON, pickle, a short safe text.

Every attempt is explained on request.
"""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply import Attempt, CallFailed, Code, Issue, Remedy, StrictReplyError, Usage
from strictreply.core.text import printable
from strictreply.loop.invoke_result import InvokeCode, InvokeError
from strictreply.values._errors import ADVICE, ADVICE_ON_ANSWERS
from strictreply.values._replies import StoppedEarly
from support.scripted import SCHEMA, USER, Client, StatusError, call, completion, refusal

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
ATTEMPT = sr.Attempt(
    1,
    {"model": "m", "messages": USER},
    raw=completion("what the model wrote"),
    issues=(
        sr.Issue.of(
            sr.Code.REPLY_EMPTY, "/content", found='"what the model wrote"', hint="say something"
        ),
    ),
    correction="Not valid.",
)


def raised(*steps: Any, **fields: Any) -> CallFailed:
    """Run a scripted call that fails, and return its error."""
    client = sr.wrap(
        Client(*steps), tools=[SEARCH], policy=sr.RetryPolicy(transport_retries=0, **fields)
    )
    with pytest.raises(CallFailed) as caught:
        client.reply(model="m", messages=USER)
    return caught.value


WRONG = completion(calls=[call("search", {"query": 1})])
EVERY_ERROR: list[StrictReplyError] = [
    sr.ContractError("the schema is broken", path="/properties"),
    sr.ContractError("no path"),
    raised(completion(""), max_retries=0),
    raised(WRONG, WRONG, max_retries=1),
    raised(refusal()),
    raised(StatusError(429, {"retry-after": "99"})),
    raised({"choices": []}),
    sr.ToolExecutionError("search", call_id="a", kind="ValueError"),
    sr.IterationsExceeded(5),
    sr.InvokeFailed(
        (InvokeError(code=InvokeCode.UNKNOWN_CALL, rule="reconcile.known_call", message="m" * 200),)
        * 99
    ),
    sr.ToolError("no such order"),
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
class TestEveryError:
    """The laws of all errors."""

    def test_is_json(self, error: StrictReplyError) -> None:
        """``to_dict`` is JSON, names the class, and holds neither prompt nor reply."""
        told = json.dumps(error.to_dict())
        assert json.loads(told)["error"] == type(error).__name__
        assert "find tea" not in told

    def test_is_picklable(self, error: StrictReplyError) -> None:
        """A round trip keeps the class, the text and every field; only the SDK's exception is left
        behind.
        """
        back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert type(back) is type(error)
        assert str(back) == str(error)
        assert vars(back) == vars(error) | ({"cause": None} if "cause" in vars(error) else {})
        assert back.to_dict() == error.to_dict()

    def test_has_a_short_text_and_a_story(self, error: StrictReplyError) -> None:
        """``str()`` is under 4 KB; ``explain()`` begins with the same words."""
        assert 0 < len(str(error).encode()) < 4_096
        assert error.explain().splitlines()[0] == str(error).splitlines()[0]


def test_requests_that_do_not_pickle_are_no_hindrance() -> None:
    """A caller may have put anything into a request: what JSON cannot hold is named by its type."""
    attempt = sr.Attempt(
        1, {"model": "m", "hook": lambda: None}, issues=(sr.Issue.of(sr.Code.REPLY_EMPTY),)
    )
    error = sr.ReplyRejected("no valid reply", reason="retries", attempts=(attempt,))
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert back.attempts[0].request == {"model": "m", "hook": "<function>"}


def test_requests_of_any_depth_and_class_pickle() -> None:
    """Cycles end, and the member of an Enum that a reader of the pickle may not have becomes its
    value.
    """

    class Model(str, Enum):  # noqa: UP042 - a StrEnum is spelt by its value, this is not
        SMALL = "small"

    cycle: list[Any] = []
    cycle.append(cycle)
    attempt = sr.Attempt(1, {"model": Model.SMALL, "messages": cycle})
    error = sr.ReplyRejected("no valid reply", reason="retries", attempts=(attempt,))
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert back.attempts[0].request == {"model": "small", "messages": ["<list>"]}

    assert type(back.attempts[0].request["model"]) is str


def test_the_cause_is_told_in_the_story_alone() -> None:
    """``explain()`` ends with what the cause said, printable and capped; ``str`` and ``repr`` do
    not say it.
    """
    cause = ValueError("the server said \x1b[31m\x9bred \udc80\n" + "x" * 100_000)
    error = sr.TransportFailed(
        "the API answered HTTP 400", reason="bad_request", attempts=(), cause=cause
    )
    last = error.explain().splitlines()[-1]
    assert "ValueError" in last

    assert "the server said \\x1b[31m\\x9bred" in last
    assert last.isprintable()
    assert len(last) < 2_200
    assert "server said" not in str(error) + repr(error)

    assert "ValueError" not in sr.TransportFailed("m", reason="malformed", attempts=()).explain()


def test_the_tree_is_what_programs_catch() -> None:
    """One root; the failed calls share their fields; argument errors are rejections."""
    assert issubclass(sr.ToolArgumentsError, sr.ReplyRejected)
    for kind in (sr.ReplyRejected, sr.ReplyHalted, sr.TransportFailed):
        assert issubclass(kind, sr.CallFailed)
    for error in EVERY_ERROR:
        assert isinstance(error, sr.StrictReplyError)
    assert issubclass(sr.ContractError, ValueError)


def test_fields_say_what_happened() -> None:
    """Reason, attempts, faults, tokens; the tool, or what the server said of waiting."""
    arguments = EVERY_ERROR[3]
    transport = EVERY_ERROR[5]
    assert isinstance(arguments, sr.ToolArgumentsError)
    assert (arguments.tool, arguments.reason, len(arguments.attempts)) == ("search", "retries", 2)

    assert arguments.usage == sr.Usage(20, 10, 30)
    assert isinstance(transport, sr.TransportFailed)
    assert (transport.retry_after, transport.status_code) == (99.0, 429)
    assert isinstance(transport.cause, StatusError)

    assert transport.issues == ()


@given(st.lists(st.text(max_size=400), min_size=1, max_size=30))
def test_the_text_is_capped_whatever_the_faults_say(messages: list[str]) -> None:
    """The text of an error stays under 4 KB of UTF-8 for messages of any length."""
    issues = tuple(sr.Issue("x", sr.Category.FORMAT_ERROR, "/p", words) for words in messages)
    error = sr.ReplyRejected(
        "no valid reply", reason="retries", attempts=(sr.Attempt(1, {}, issues=issues),)
    )
    assert len(str(error).encode()) < 4_096


def test_ten_thousand_faults_are_a_short_text() -> None:
    """The first faults are listed, the others counted; all of them are on the error."""
    issues = tuple(
        sr.Issue.of(sr.Code.SHAPE_NOT_OBJECT, f"/{index}" + "x" * 500) for index in range(10_000)
    )
    error = sr.ReplyRejected(
        "no valid reply", reason="retries", attempts=(sr.Attempt(1, {}, issues=issues),)
    )
    assert len(str(error).encode()) < 4_096
    assert len(error.issues) == 10_000


def test_the_text_holds_nothing_the_model_wrote() -> None:
    """``str`` and ``repr`` are made of our words; what came is told by ``explain()`` alone."""
    error = sr.ReplyRejected(
        "no valid reply after 1 attempt", reason="retries", attempts=(ATTEMPT,)
    )
    assert "what the model wrote" not in str(error) + repr(error)
    assert "find tea" not in str(error) + repr(error) + error.explain()


def test_explain_tells_the_whole_story() -> None:
    """It shows the reply, its faults, the correction, and what to do."""
    story = sr.ReplyRejected(
        "no valid reply after 1 attempt", reason="retries", attempts=(ATTEMPT,)
    ).explain()
    assert "what the model wrote" in story
    assert "reply.empty at /content" in story
    assert "Not valid." in story
    assert "say something" in story
    assert "What to do:" in story


@given(st.text(max_size=50), st.text(max_size=20))
def test_contract_errors_say_where(message: str, path: str) -> None:
    """The path stands on the error as it is, and in its text, printable, when there is one."""
    error = sr.ContractError(message, path=path)
    assert error.path == path
    assert str(error) == printable(f"{message} (at {path})" if path else message)


def test_a_wrong_declaration_is_told_in_bounds() -> None:
    """For any wrong value and place, the error's text stays under 4 KB and is safe to print."""
    error = sr.ContractError("x" * 10_000, path="/" + "y" * 10_000)
    assert len(str(error).encode()) < 4_096
    assert len(error.path) == 10_001


HALTED_BY = re.compile(r'End\("halted", "(\w+)"\)')


def test_each_budget_that_halts_a_call_has_advice() -> None:
    """No budget of the loop ends a call without saying what to do."""
    sources = (Path(sr.__file__).parent / "retry").glob("*.py")
    reasons = {
        reason for source in sources for reason in HALTED_BY.findall(source.read_text("utf-8"))
    }
    assert {"deadline", "tokens", "cost"} <= reasons
    assert [reason for reason in reasons if not sr.Reason(reason).advice] == []


@pytest.mark.parametrize(
    "reason", ["deadline", "tokens", "cost", "authentication_failed", "rate_limit", "timeout"]
)
def test_what_ended_a_call_comes_with_what_to_do(reason: str) -> None:
    """A budget or a failed transport is told with its remedy, in the error's text and in its whole
    story.
    """
    error = sr.CallFailed("it ended", reason=reason, attempts=())
    advice = sr.Reason(reason).advice
    assert advice
    assert advice in str(error)
    assert advice in error.explain()


@pytest.mark.parametrize("digits", [4_300, 5_000])
def test_v14_no_usage_breaks_the_story(digits: int) -> None:
    """However many digits a server, or a client without HTTP, puts into ``usage``, every account of
    it can be made.
    """
    endless = {
        "prompt_tokens": 10**digits - 1,
        "completion_tokens": 10**digits - 1,
        "total_tokens": 1,
    }
    bad = completion("") | {"usage": endless}

    with pytest.raises(sr.ReplyRejected) as caught:
        sr.wrap(Client(bad, bad, bad, bad), tools=[]).reply(model="m", messages=USER)

    error = caught.value
    assert "4 attempts, 4 tokens in total" in error.explain()
    assert json.loads(json.dumps(error.to_dict()))["reason"] == "retries"
    assert json.loads(json.dumps(error.attempts[0].to_dict(raw=True)))["number"] == 1

    assert pickle.loads(pickle.dumps(error)).usage == error.usage  # noqa: S301 - our own bytes


EMPTY = (Issue.of(Code.REPLY_EMPTY),)


def story(*attempts: Attempt) -> str:
    """Return what the error of a call with these attempts explains."""
    return sr.ReplyRejected("headline", reason="retries", attempts=attempts).explain()


def test_every_remedy_has_its_advice_once() -> None:
    """Faults of one kind are advised on once, in the order they came."""
    issues = (*EMPTY, Issue.of(Code.REPLY_TRUNCATED), *EMPTY)
    told = story(Attempt(1, {}, issues=issues)).splitlines()
    assert [line.strip() for line in told if "What to do" in line] == [
        f"What to do: {ADVICE_ON_ANSWERS}",
        f"What to do: {ADVICE[Remedy.SHORTEN]}",
    ]
    assert ADVICE.keys() == set(Remedy)


def test_a_stream_that_was_closed_is_told() -> None:
    """What came of it is half a reply by our own decision, not by the model's."""
    closed = Attempt(1, {}, raw={}, stopped_early=StoppedEarly(4))
    assert "closed here: the reply could no longer become valid" in story(closed)
    assert "closed here" not in story(Attempt(1, {}, raw={}))


def test_attempts_are_told_in_order() -> None:
    """Number, seconds and scope; what was asked, what failed, what came, what was wrong, what was
    let through.
    """
    lines = story(
        Attempt(1, {}, raw=completion("first"), issues=EMPTY, usage=Usage(1, 2, 3), seconds=0.5),
        Attempt(2, {}, failure="timeout", correction="Again:\n- /x", tier=1, scope="search"),
        Attempt(3, {}, raw=completion("third"), lenient=("fence removed",)),
    ).splitlines()
    assert lines[:2] == ["headline", "3 attempts, 3 tokens in total."]
    told = "\n".join(lines)

    order = [
        *(
            "Attempt 1 (0.50 s)",
            "first",
            "issue: reply.empty at /",
            "Attempt 2 (0.00 s, only the arguments of search)",
        ),
        *(
            "sent:",
            "- /x",
            "failed: timeout",
            "Attempt 3",
            "third",
            "lenient step: fence removed",
            "accepted",
        ),
    ]
    places = [told.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (completion("hello"), '"content": "hello"'),
        ({"choices": []}, '{"choices": []}'),
        ({"choices": [{"index": 0}]}, '{"choices": [{"index": 0}]}'),
        ({"choices": ["x"]}, '{"choices": ["x"]}'),
        ([1], "[1]"),
        ("text\x1b", '"text\\u001b"'),
    ],
)
def test_what_came_is_shown_escaped(raw: object, shown: str) -> None:
    """The message of a completion, or else the whole response; control characters are escaped."""
    attempt = Attempt(1, {}, raw=raw, issues=EMPTY)  # type: ignore[arg-type]
    assert shown in story(attempt)


def test_what_came_is_capped() -> None:
    """A megabyte of reply is two kilobytes of story, and says how much there was."""
    told = story(Attempt(1, {}, raw=completion("x" * 1_000_000), issues=EMPTY))
    assert 2_000 < len(told) < 3_000
    assert "characters in total" in told


@given(st.text())
def test_what_is_printable_does_nothing(text: str) -> None:
    """No control character, line break, reordering mark or surrogate is left; what is printable
    stays.
    """
    shown = printable(text)
    assert shown.isprintable()
    assert (shown == text) is text.isprintable()


def reasons_in(path: Path) -> Iterator[str]:
    """Yield the reasons that a module writes into the end of a call."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        called = (
            node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        )
        if called in {"End", "Failure"} and isinstance(node, ast.Call):
            yield from (
                one.value
                for one in node.args[:2]
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


def test_every_reason_is_a_member() -> None:
    """What ends a call is in ``Reason``: of the policy, of a fault that stops, of the transport."""
    folder = Path(sr.__file__).parent / "retry"
    written = {one for path in folder.glob("*.py") for one in reasons_in(path)}
    written -= {"halted", "failed", "rejected"}
    stopping = {code.rpartition(".")[2] for code in sr.Code if code.remedy is sr.Remedy.STOP}
    known = written | stopping

    assert len(written) > 10
    assert known <= set(sr.Reason)
    assert f"{sr.Reason.RETRIES}" == "retries"
