"""An error of an API is classified once, and what was read is never changed."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Category, Code, Invalid, ReplyHalted, ReplyRejected, TransportFailed
from strictreply.coordination import (
    ActionType,
    ApiError,
    ApiErrorClass,
    ErrorMessageProcessor,
    Origin,
)
from strictreply.core import Failure
from strictreply.retry._policy import REJECTED_WORDS
from support.scripted import StatusError

RETRY = ActionType.AUTO_RETRY
END = ActionType.TERMINAL_ERROR
ASK = ActionType.ERROR_RECOVERY

ACTIONS = {
    **dict.fromkeys(("timeout", "network_error", "service_unavailable", "rate_limit"), RETRY),
    **dict.fromkeys(
        (
            "authentication_failed",
            "permission_denied",
            "invalid_model",
            "invalid_request",
            "request_too_large",
        ),
        END,
    ),
    **dict.fromkeys(
        (
            *("insufficient_credits", "partial_failure", "deprecated_api", "validation_error"),
            *("empty_completion", "refusal", "unknown"),
        ),
        ASK,
    ),
}


def read(**report: Any) -> ApiError:
    """Read a report."""
    return ApiError.of_report(report)


@pytest.mark.req("M83")
@pytest.mark.parametrize(("word", "action"), ACTIONS.items())
def test_each_class_has_one_reaction(word: str, action: ActionType) -> None:
    """Transient errors are retried, terminal ones end, everything else is brought to the user."""
    assert read(classification=word, is_retryable=True).action is action
    assert set(ACTIONS) == {member.value for member in ApiErrorClass}


@pytest.mark.req("M83")
def test_a_rate_limit_is_retried_after_the_servers_wait() -> None:
    """A rate limit is tried again, and the seconds that the server asked for go with the action."""
    result = read(classification="rate_limit", retry_after=60).to_result(
        agent="A", branch_id="main"
    )
    assert (result.action_type, result.origin) == (RETRY, Origin.SYSTEM)
    assert result.parsed_response is not None
    assert result.parsed_response["error_details"]["retry_after"] == 60


@pytest.mark.req("M83")
def test_what_nobody_knows_is_unknown() -> None:
    """A class that does not exist, or none at all, is unknown, and goes to the user."""
    for report in (
        {"classification": "moon_phase"},
        {},
        {"classification": ["timeout"]},
        {"classification": None},
    ):
        assert ApiError.of_report(report).classification is ApiErrorClass.UNKNOWN
        assert ApiError.of_report(report).action is ASK


@pytest.mark.req("M84")
def test_what_must_not_be_retried_is_brought_to_the_user() -> None:
    """A timeout that is not retryable is recovered from by the user, not by a retry."""
    assert read(classification="timeout", is_retryable=False).action is ASK


@pytest.mark.req("M85")
def test_a_terminal_error_says_why_the_run_ends() -> None:
    """An authentication error carries its reason to the end; a transient one has none."""
    result = read(classification="authentication_failed", message="bad key").to_result(
        agent="A", branch_id="main"
    )
    assert result.parsed_response is not None
    assert (result.action_type, result.parsed_response["termination_reason"]) == (
        END,
        "authentication_failed",
    )

    assert result.parsed_response["error"] == "bad key"
    assert "termination_reason" not in (
        read(classification="timeout").to_result(agent="A", branch_id="b").parsed_response or {}
    )


@pytest.mark.req("M85")
def test_missing_credits_suggest_what_to_do() -> None:
    """The suggestion of the report comes first, then that credits are needed, then the retry."""
    report = {
        "classification": "insufficient_credits",
        "suggested_action": "call Ann",
        "limits": {"usd": [1]},
    }
    before = copy.deepcopy(report)
    error = ApiError.of_report(report)
    result = error.to_result(agent="A", branch_id="main")

    assert error.suggested_actions[0] == "call Ann"
    assert len(error.suggested_actions) == 3
    assert result.parsed_response is not None
    assert result.parsed_response["suggested_actions"] == list(error.suggested_actions)

    result.parsed_response["error_details"]["limits"]["usd"].append(2)
    assert report == before


@pytest.mark.req("M86")
def test_a_recovery_says_who_failed_where() -> None:
    """Agent and branch go with a recovery, and not with a terminal error."""
    recovery = read(classification="unknown").to_result(agent="A", branch_id="b7").parsed_response
    terminal = (
        read(classification="invalid_model").to_result(agent="A", branch_id="b7").parsed_response
    )
    assert recovery is not None
    assert terminal is not None
    assert recovery["retry_context"] == {"agent_name": "A", "branch_id": "b7"}
    assert "retry_context" not in terminal


@pytest.mark.req("M87")
def test_a_message_that_reports_no_error_is_refused() -> None:
    """Only a message with the role ``error`` is read as one."""
    for message in (
        {"role": "assistant", "content": "hi"},
        {},
        None,
        "error",
        SimpleNamespace(role="user"),
    ):
        read_message = ErrorMessageProcessor().process(message)
        assert isinstance(read_message, Invalid)
        assert (read_message.issues[0].code, read_message.issues[0].path) == (
            Code.SHAPE_WRONG_TYPE,
            "/role",
        )


@pytest.mark.req("M87")
@pytest.mark.parametrize("content", ["boom", '{"classification":', '"boom"', "[1]"])
def test_content_that_is_no_report_is_the_message(content: str) -> None:
    """Any other content becomes the message of an error of unknown class, word for word."""
    action = ErrorMessageProcessor().process({"role": "error", "content": content})
    assert action == {
        "next_action": ApiError(message=content).action,
        "error_details": {"classification": ApiErrorClass.UNKNOWN, "message": content},
    }


def test_a_report_is_read_from_text_mappings_and_objects() -> None:
    """A report may stand in the content as JSON or as a mapping, of a mapping or an object."""
    report = {"classification": "timeout", "message": "slow"}
    messages = [
        {"role": "error", "content": '{"classification":"timeout","message":"slow"}'},
        {"role": "error", "content": report},
        SimpleNamespace(role="error", content=report),
    ]
    expected = {"next_action": ApiError.of_report(report).action, "error_details": report}
    assert [ErrorMessageProcessor().process(message) for message in messages] == [expected] * 3


@pytest.mark.parametrize("wait", [True, "60", -1, float("nan"), float("inf"), 10**400, None, [1]])
def test_a_wait_that_is_no_number_of_seconds_is_not_kept(wait: object) -> None:
    """Only a finite number, 0 or more, is a wait."""
    assert read(classification="rate_limit", retry_after=wait).retry_after is None


@pytest.mark.parametrize(
    ("error", "kind", "action"),
    [
        (StatusError(429, {"retry-after": "7"}), "rate_limit", RETRY),
        (StatusError(429, code="insufficient_quota"), "insufficient_credits", ASK),
        (StatusError(401), "authentication_failed", END),
        (StatusError(404), "invalid_model", END),
        (StatusError(413), "request_too_large", END),
        (StatusError(503), "service_unavailable", RETRY),
        (TimeoutError(), "timeout", RETRY),
        (ConnectionError(), "network_error", RETRY),
    ],
)
def test_exceptions_of_an_sdk_are_classified(
    error: Exception, kind: str, action: ActionType
) -> None:
    """An SDK's exception is read by the core, and its kind is one of the published classes."""
    known = ApiError.of_exception(error)
    assert known is not None
    assert (known.classification.value, known.action) == (kind, action)


def test_a_call_that_was_retried_is_not_retried_again() -> None:
    """A failed call of a wrapped client goes to the user, or ends; a bug is no error of an API."""
    slow = TransportFailed("slow", reason="timeout", attempts=(), retry_after=5.0, status_code=408)
    known = [
        ApiError.of_exception(error)
        for error in (
            slow,
            ReplyRejected("bad", reason="retries", attempts=()),
            ReplyHalted("no", reason="refusal", attempts=()),
            TransportFailed("key", reason="authentication_failed", attempts=()),
        )
    ]
    assert [error and error.action for error in known] == [ASK, ASK, ASK, END]
    assert known[0] is not None

    assert (known[0].retry_after, known[0].details) == (5.0, {"status_code": 408})
    assert ApiError.of_exception(KeyError("bug")) is None


@pytest.mark.parametrize("reason", REJECTED_WORDS)
def test_replies_that_did_not_fit_are_no_failure_of_the_api(reason: str) -> None:
    """For whatever reason bad replies ended a call, agents read it as an error of validation."""
    error = ApiError.of_exception(ReplyRejected("bad", reason=reason, attempts=()))
    assert error is not None
    assert error.classification is ApiErrorClass.VALIDATION_ERROR


def test_the_issue_of_an_error_is_our_own_words() -> None:
    """As a fault an error has a code of its class, one category, and no word of the server's."""
    error = ApiError.of_failure(Failure("rate_limit", retryable=True, status_code=429))
    assert (error.issue.code, error.issue.category) == ("api.rate_limit", Category.API_TRANSIENT)
    assert read(classification="unknown", message="SECRET").issue.message.find("SECRET") == -1


@given(
    st.dictionaries(
        st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists)
    )
)
def test_any_report_is_read(report: dict[str, Any]) -> None:
    """Any report is read and becomes an action of the system."""
    result = ApiError.of_report(report).to_result(agent="A", branch_id="b")
    assert result.action_type in {RETRY, END, ASK}
