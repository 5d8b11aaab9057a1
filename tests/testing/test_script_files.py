"""Scripts in files: raw replies of every kind, served byte for byte to the real SDKs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from strictreply.testing import ScriptedModel, ScriptServer, faults, ok, read_script, record
from support.scripted import http

TURNS: Any = [{"role": "user", "content": "tea"}]
# numbers, blanks and escapes that no writer of JSON makes by itself
CHAT = (
    '{"object":"chat.completion", "id": "c1", "model":"m", "created": 1.0e0,'
    ' "choices":[{"index":0,"finish_reason":"stop",'
    '"message":{"role":"assistant","content":"\\u0054ea"}}]}\n'
)
RESPONSE = (
    '{"object":"response",  "id":"r1", "status":"completed", "output":[{"type":"message",'
    '"id":"m1","role":"assistant","content":[{"type":"output_text","text":"\\u0054ea"}]}]}'
)
MESSAGE = (
    '{"type":"message",  "id":"m1", "role":"assistant", "model":"m", "stop_reason":"end_turn",'
    '"content":[{"type":"text","text":"\\u0054ea"}],"usage":{"input_tokens":1,"output_tokens":1}}'
)
ERROR = '{"error": {"type":"overloaded_error","message":"busy"}, "type":"error"}'
APIS = {
    "chat/completions": (CHAT, {"messages": TURNS}),
    "responses": (RESPONSE, {"input": TURNS}),
    "messages": (MESSAGE, {"messages": TURNS, "max_tokens": 9}),
}
each_api = pytest.mark.parametrize("path", APIS)


def sent(base_url: str, path: str, *, stream: bool = False) -> Any:
    """Ask an API over the socket, and return the HTTP response."""
    body = {"model": "m", "stream": stream, **APIS[path][1]}
    return http.post(f"{base_url}/{path}", json=body)


def text_by_sdk(base_url: str, path: str) -> str:
    """Ask an API by its real SDK, and return the text of the reply."""
    if path == "messages":
        with anthropic.Anthropic(base_url=base_url, api_key="none", max_retries=0) as claude:
            block: Any = claude.messages.create(model="m", max_tokens=9, messages=TURNS).content[0]
            return str(block.text)

    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        if path == "responses":
            return client.responses.create(model="m", input="tea").output_text
        completion = client.chat.completions.create(model="m", messages=TURNS)
        return str(completion.choices[0].message.content)


def served(path: Path, *lines: object) -> ScriptServer:
    """Write a script, a step on each line, and return its server."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return ScriptServer(script=read_script(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a script."""
    return tmp_path / "script.jsonl"


@each_api
def test_a_body_is_served_byte_for_byte_by_its_api(tmp_path: Path, path: str) -> None:
    """A body that is given as text keeps its blanks, numbers and escapes, and the SDK reads it."""
    body = APIS[path][0]
    with served(tmp_path / "s", {"body": body}, {"body": json.loads(body)}) as server:
        assert sent(server.base_url, path).content == body.encode()
        assert text_by_sdk(server.base_url, path) == "Tea"


@each_api
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_error_has_its_status_headers_and_bytes(tmp_path: Path, path: str, stream: bool) -> None:
    """Under the status of an error any bytes go out as they are, whatever the API."""
    headers = {"retry-after": "7", "content-type": "text/html"}
    raw = b"\xff\xfe<html>"
    steps: list[Any] = [
        {"body": ERROR, "status": 529},
        {"body": "<html>busy", "status": 502, "headers": headers},
        {"body_base64": base64.b64encode(raw).decode(), "status": 500},
    ]
    with served(tmp_path / "s", *steps) as server:
        came = [sent(server.base_url, path, stream=stream) for _ in steps]

    assert [(one.status_code, one.content) for one in came] == [
        (529, ERROR.encode()),
        (502, b"<html>busy"),
        (500, raw),
    ]
    assert came[0].headers["content-type"] == "application/json"
    assert {name: came[1].headers[name] for name in headers} == headers


EVENTS: dict[str, list[Any]] = {
    "chat/completions": [
        {"choices": [{"index": 0, "delta": {"content": "T\u00e9"}}]},
        ": a comment\n\n",
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        "data: [DONE]\n\n",
    ],
    "responses": [{"type": "response.created", "odd": 1.5}, {"type": "response.odd"}],
    "messages": [{"type": "message_start", "message": {}}, {"type": "ping"}],
}


@each_api
def test_a_stream_is_served_as_its_events_or_its_text(tmp_path: Path, path: str) -> None:
    """A list of events is written as the API writes them; a text goes out byte for byte."""
    text = ":x\ndata:  {}\r\n\r\nevent: odd\ndata: half"
    steps: list[Any] = [{"stream": EVENTS[path]}, {"stream": text}]
    with served(tmp_path / "s", *steps) as server:
        first, second = (sent(server.base_url, path, stream=True) for _ in steps)

    data = [line[6:] for line in first.text.split("\n") if line.startswith("data: {")]
    assert [*map(json.loads, data)] == [one for one in EVENTS[path] if isinstance(one, dict)]
    kinds = [line[7:] for line in first.text.split("\n") if line.startswith("event: ")]
    assert kinds == [one["type"] for one in EVENTS[path] if "type" in one]
    assert all(one in first.text for one in EVENTS[path] if isinstance(one, str))
    assert second.content == text.encode()


def test_a_broken_connection_can_be_given(path: Path) -> None:
    """``ending`` cuts the connection behind what was given."""
    with (
        served(path, {"body": CHAT, "ending": "cut"}) as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
        pytest.raises(openai.APIConnectionError),
    ):
        client.chat.completions.create(model="m", messages=TURNS)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """What ``record`` writes of a good reply, a stream and an error."""
    kept = tmp_path / "kept.jsonl"
    model = ScriptedModel(ok.answer("Good tea"), ok.answer("A stream"), faults.rate_limited())
    with (
        model.serve() as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
    ):
        recorder = record(client, kept)
        recorder.chat.completions.create(model="m", messages=TURNS)
        list(recorder.chat.completions.create(model="m", messages=TURNS, stream=True))
        with pytest.raises(openai.RateLimitError):
            recorder.chat.completions.create(model="m", messages=TURNS)

    return kept


def test_a_recording_is_served_as_it_is(recording: Path) -> None:
    """Each line is a step: the same completion, the bytes of the stream, the error's status."""
    lines = [json.loads(line) for line in recording.read_text().splitlines()]
    assert len(lines) == 3
    with ScriptServer(script=read_script(recording)) as server:
        came = [
            sent(server.base_url, "chat/completions", stream=bool(line["request"].get("stream")))
            for line in lines
        ]
        over = sent(server.base_url, "chat/completions")

    assert came[0].json() == lines[0]["response"]
    assert came[1].text == lines[1]["http"]["body"]
    assert (came[2].status_code, came[2].text) == (429, lines[2]["http"]["body"])
    assert over.json()["error"]["code"] == "script_spent"


def test_a_model_in_memory_takes_the_same_steps(recording: Path) -> None:
    """``llm.script`` serves raw replies and recorded lines beside ``ok`` and ``faults``."""
    recorded = read_script(recording)["steps"][0]
    model = ScriptedModel(
        {"body": CHAT}, {"body": b"\xff", "status": 502}, recorded, ok.answer("end")
    )
    client = model.openai()

    def text() -> str | None:
        return client.chat.completions.create(model="m", messages=TURNS).choices[0].message.content

    assert text() == "Tea"
    with pytest.raises(openai.InternalServerError) as caught:
        text()
    assert (caught.value.status_code, caught.value.response.content) == (502, b"\xff")
    assert [text(), text()] == ["Good tea", "end"]
    assert "given body" in model.story()

    plain = ScriptedModel({"body": CHAT}).client().chat.completions
    assert plain.create(model="m", messages=TURNS).choices[0].message.content == "Tea"


def test_a_raw_reply_that_is_quoted_is_an_echo() -> None:
    """What the model wrote in a raw reply may not come back in a prompt either."""
    model = ScriptedModel({"content": "the words of the model"}, then=ok.answer())
    client = model.openai()
    client.chat.completions.create(model="m", messages=TURNS)
    model.assert_no_echo()
    again: Any = [{"role": "user", "content": "wrong: the words of the model"}]
    client.chat.completions.create(model="m", messages=again)
    with pytest.raises(AssertionError):
        model.assert_no_echo()


def test_a_stream_in_memory_needs_a_request_for_one() -> None:
    """The request gets a 400 that says what is needed."""
    with pytest.raises(openai.BadRequestError) as caught:
        ScriptedModel({"stream": "data: {}\n\n"}).openai().chat.completions.create(
            model="m", messages=TURNS
        )
    assert caught.value.code == "step_not_made"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ({"choices": []}, '{"body": {…}}'),
        ({"object": "response", "output": []}, '{"body": {…}}'),
        ({"type": "response.created"}, '{"stream": ['),
        ({"object": "chat.completion.chunk", "choices": []}, '{"stream": ['),
        ({"role": "assistant", "content": "x"}, "whole response"),
        (json.loads(MESSAGE), '{"body": {…}}'),
        ({"body": {}, "stream": ""}, "body, stream"),
        ({"request": {}, "response": {}}, '"http"'),
        ({"body": {}, "statsu": 5}, '"status"'),
        ({"body_base64": "%"}, "base64"),
        ({"body": 1, "headers": {"a": "b\r\nc: d"}}, "headers"),
        ({"hello": 1}, "body_base64"),
        ({"body": "x", "status": 204}, "no body"),
        ({"stream": ["data: {}"], "status": 304}, "no body"),
        (
            {"request": {}, "response": {}, "http": {"status": 204, "headers": {}, "body": "x"}},
            "no",
        ),
        ({"body": "half \ud800"}, "body_base64"),
        ({"stream": ["data: \udfff"]}, "body_base64"),
        ({"body": 1, "headers": {"Content-Length": "1", "content-length": "2"}}, "content-length"),
        ("wrong_typ", "wrong_type"),
        ([{}], "an object"),
        (5, "an object"),
    ],
)
def test_a_line_that_is_no_step_is_told(path: Path, line: Any, advice: str) -> None:
    """The error names the line and what to write."""
    path.write_text(f'"good"\n\n{json.dumps(line)}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"script\.jsonl: line 3: ") as caught:
        read_script(path)
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "empty"),
        ("[]", "list"),
        ('"good"\nSure!', "line 2: it is not JSON"),
        ('{"then": "good"}\n"good"', "line 2: nothing may follow"),
        ('{"steps": [{"body": 1, "call": "x"}]}', "steps.0"),
        ('{"then": {"bodi": 1}}\n"good"', "line 1: then: "),
    ],
)
def test_a_file_that_is_no_script_is_told(path: Path, text: str, place: str) -> None:
    """So does a file that holds no script, or one whose end is not the last line."""
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=place):
        read_script(path)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"body": 1, "body": 2}', 'the key "body" is there twice'),
        ('{"body": {"choices": [{"a": 1, "a": 1}]}}', 'the key "a" is there twice'),
        (f'{{"body": {"9" * 5_000}}}', "too many digits"),
        (f'{{"body": {"[" * 100_000}', "nested too deeply"),
    ],
)
@pytest.mark.parametrize("before", ["", '"good"\n'])
def test_what_python_cannot_hold_is_told(path: Path, line: str, told: str, before: str) -> None:
    """A key that is there twice would be lost; all of them can be served as a text."""
    path.write_text(f"{before}{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"script\.jsonl: ") as caught:
        read_script(path)
    assert told in str(caught.value)
    assert '{"body": "…"}' in str(caught.value)


def test_a_script_may_have_only_its_end(path: Path) -> None:
    """``then`` alone is served to all requests."""
    path.write_text('{"then": {"content": "Tea"}}\n', encoding="utf-8")
    script = read_script(path)
    assert script == {"steps": [], "then": {"content": "Tea"}}
    with ScriptServer(script=script) as server:
        assert [text_by_sdk(server.base_url, "chat/completions") for _ in range(2)] == ["Tea"] * 2


def test_a_status_without_a_body_is_served_without_one(tmp_path: Path) -> None:
    """204 and 304 have an empty body; a status in another notation of JSON is the same number."""
    steps: list[Any] = [
        {"body": "", "status": 204},
        {"stream": [], "status": 304},
        {"body": CHAT, "status": 200.0},
    ]
    with served(tmp_path / "s", *steps) as server:
        came = [
            sent(server.base_url, "chat/completions", stream=number == 1) for number in range(3)
        ]
    assert [(one.status_code, one.content) for one in came] == [
        (204, b""),
        (304, b""),
        (200, CHAT.encode()),
    ]


def test_half_a_surrogate_pair_is_an_escape_in_json(tmp_path: Path) -> None:
    """What JSON can write is served: in a body, in the content and in the events of a stream."""
    chunk = {"choices": [{"index": 0, "delta": {"content": "\ud800"}}]}
    body = {"choices": [{"message": {"role": "assistant", "content": "\ud800"}}]}
    steps = [{"stream": [chunk]}, {"body": body}, {"content": "\ud800"}, {"content": "\ud800"}]
    with served(tmp_path / "s", *steps) as server:
        came = [sent(server.base_url, "chat/completions", stream=one in {0, 3}) for one in range(4)]
    assert [one.status_code for one in came] == [200] * 4
    assert [b"\\ud800" in one.content for one in came] == [True] * 4


@pytest.mark.parametrize("name", ["Content-Length", "content-length"])
def test_a_stream_has_one_framing(tmp_path: Path, name: str) -> None:
    """With a length that the user gives, a stream is not chunked as well."""
    text = "data: {}\n\n"
    step = {"stream": text, "headers": {name: str(len(text))}}
    with served(tmp_path / "s", step) as server:
        came = sent(server.base_url, "chat/completions", stream=True)
    assert came.content == text.encode()
    assert "transfer-encoding" not in came.headers
    assert came.headers["content-length"] == str(len(text))


def test_a_script_is_one_object_or_lines(path: Path) -> None:
    """Both spellings are the same script, and a step may stand on several lines if it is alone."""
    script = {"steps": ["good", {"content": "x"}], "then": "good"}
    path.write_text(json.dumps(script, indent=2), encoding="utf-8")
    assert read_script(path) == script
    path.write_text('"good"\n{"content": "x"}\n{"then": "good"}\n', encoding="utf-8")
    assert read_script(path) == script
    path.write_text('{\n"content": "x"\n}', encoding="utf-8")
    assert read_script(path) == {"steps": [{"content": "x"}]}


def test_replies_and_a_script_exclude_each_other() -> None:
    """Which comes first would be a guess."""
    with pytest.raises(ValueError, match="not both"):
        ScriptServer(["Sure!"], script={"steps": []})
    with pytest.raises(ValueError, match="not both"):
        ScriptServer(script={"steps": []}, status=503)
