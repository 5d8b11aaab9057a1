"""``mode="observe"`` over the anthropic SDK, by its own methods, middleware and clouds."""

from __future__ import annotations

from typing import Any

import pytest

import strictreply as sr
from support.claude import ASK, WEATHER, anthropic, http
from support.messages import body, events, message, text, use

WRONG = message(use({"city": 3}, name="weather"))
FITS = message(use({"city": "Bern"}, name="weather"))


class Answers:
    """A server that answers in order, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []

    def __call__(self, request: Any) -> Any:
        """Answer a request."""
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, bytes):
            kind = {"content-type": "text/event-stream"}
            return http.Response(200, content=answer, headers=kind)
        return http.Response(200, json=answer)

    def client(self, **given: Any) -> Any:
        """Return a client of the SDK over this server."""
        held = http.Client(transport=http.MockTransport(self))
        return anthropic.Anthropic(api_key="none", max_retries=0, http_client=held, **given)


def observed(client: Any, seen: list[sr.Attempt]) -> Any:
    """Return a client that observes."""
    return sr.wrap(client, mode="observe", on_attempt=seen.append)


def create(client: Any) -> Any:
    """Make the usual call."""
    return client.messages.create(**ASK, tools=[WEATHER]).model_dump()


def in_beta(client: Any) -> Any:
    """Make a call of the beta."""
    return client.beta.messages.create(**ASK, tools=[WEATHER]).model_dump()


def managed(client: Any) -> Any:
    """Read the SDK's own stream."""
    with client.messages.stream(**ASK, tools=[WEATHER]) as opened:
        return [event.type for event in opened], opened.get_final_message().model_dump()


def streamed(client: Any) -> Any:
    """Read the events of a streamed call."""
    opened = client.messages.create(**ASK, tools=[WEATHER], stream=True)
    return [event.model_dump() for event in opened]


@pytest.mark.parametrize("ask", [create, in_beta, managed, streamed])
def test_the_sdks_methods_give_what_the_raw_clients_give(ask: Any) -> None:
    """Request and result are equal, and the call that does not fit is told."""
    is_whole = ask in (create, in_beta)
    answer: Any = WRONG if is_whole else body(events(WRONG))
    servers = Answers(answer), Answers(answer)
    seen: list[sr.Attempt] = []

    expected = ask(servers[0].client())
    assert ask(observed(servers[1].client(), seen)) == expected
    sent = [(str(one.url), one.content, dict(one.headers)) for one in servers[0].requests]
    assert [(str(one.url), one.content, dict(one.headers)) for one in servers[1].requests] == sent
    assert [[issue.code for issue in one.issues] for one in seen] == [["args.type"]]


def test_middleware_of_the_program_runs_once() -> None:
    """The caller's middleware sees the one request, and the reply is judged."""
    if not hasattr(anthropic, "Middleware"):
        pytest.skip("this release of anthropic has no middleware")

    calls: list[str] = []

    def counts(request: Any, call_next: Any) -> Any:
        calls.append("request")
        return call_next(request)

    seen: list[sr.Attempt] = []
    create(observed(Answers(WRONG).client(middleware=[counts]), seen))

    assert calls == ["request"]
    assert [one.observed for one in seen] == [True]


def test_the_sdks_runner_asks_as_over_the_raw_client() -> None:
    """The runner runs the tool with what came, in the server's thread where the SDK uses one."""
    if not hasattr(anthropic, "beta_tool"):
        pytest.skip("this release of anthropic has no runner of tools")

    given: list[Any] = []

    @anthropic.beta_tool  # type: ignore[untyped-decorator]
    def weather(city: str) -> str:
        """Tell the weather.

        Args:
            city: Where.
        """
        given.append(city)
        return "sun"

    servers = [Answers(FITS, message(text("sun"))) for _ in range(2)]
    seen: list[sr.Attempt] = []
    for client in (servers[0].client(), observed(servers[1].client(), seen)):
        runner = client.beta.messages.tool_runner(**ASK, tools=[weather])
        assert runner.until_done().content[0].text == "sun"

    sent = [[one.content for one in server.requests] for server in servers]
    assert sent[0] == sent[1]
    assert len(sent[0]) == 2
    assert given == ["Bern", "Bern"]
    assert seen
    assert all(one.accepted for one in seen)


def test_a_paused_turn_is_no_fault() -> None:
    """The caller goes on with a turn that the API pauses, as it does without us."""
    seen: list[sr.Attempt] = []
    paused = message(text("so far"), stop="pause_turn")
    create(observed(Answers(paused).client(), seen))

    assert [one.issues for one in seen] == [()]


def test_threads_of_the_server_pass() -> None:
    """What cannot be guarded is the SDK's own where nothing is enforced."""
    client = observed(Answers(FITS).client(), [])

    raw = Answers(FITS).client()
    name = "_supports_message_threads"
    assert getattr(client, name, None) == getattr(raw, name, None)


def test_a_paused_turn_with_a_wrong_call_of_an_enforced_tool_is_corrected() -> None:
    """A pause hides no fault of an enforced tool; a turn without one is handed on as it came."""
    wrong = message(use({"city": 3}, name="weather"), stop="pause_turn")
    begun = message(text("so far"), stop="pause_turn")
    servers = [Answers(one, FITS) for one in (wrong, begun)]
    given = [create(sr.wrap(server.client(), enforce={"weather"})) for server in servers]

    assert [len(server.requests) for server in servers] == [2, 1]
    assert given[0]["content"][0]["input"] == {"city": "Bern"}
    assert given[1]["stop_reason"] == "pause_turn"
