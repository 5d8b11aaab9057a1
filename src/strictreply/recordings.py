"""Recorded replies: lines of JSON from files, read into what a contract can judge offline.

Two layouts are known: chat-completion dumps (a completion, or a request and its response side by side), and one
record a line with ``mode``, ``tools`` and ``reply``. What cannot be read is reported by its line, never dropped.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from strictreply.contract import Contract
from strictreply.decoding import decode
from strictreply.errors import ContractError
from strictreply.limits import MAX_JSON_DEPTH, Limits
from strictreply.replies import Invalid, Verdict
from strictreply.typing import Channel, JSONObject

LINE_LIMITS = Limits(reply_bytes=64_000_000, depth=MAX_JSON_DEPTH, nodes=4_000_000)
_GZIP_MAGIC = b"\x1f\x8b"
_RESPONSE_KEYS = ("response", "completion", "output")


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded reply: what was asked of the model, and the message or completion it gave."""

    model: str
    tools: list[Any] = field(repr=False)
    response: JSONObject = field(repr=False)
    answer: JSONObject | None = field(default=None, repr=False)
    channel: Channel = "native"

    @property
    def called(self) -> str:
        """Name the first tool that was called, ``-`` when none was: for a table, escaped and capped."""
        message = self.response
        choices = message.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            message = choices[0].get("message") or {}
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        first = calls[0] if isinstance(calls, list) and calls else None
        function = first.get("function") if isinstance(first, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        declared = {_declared_name(tool) for tool in self.tools}
        return "-" if not isinstance(name, str) else name if name in declared else "(unknown tool)"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that holds no recorded reply, and why; lines count from 1."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A recorded reply and the verdict on it."""

    line: int
    recording: Recording
    verdict: Verdict


class Judge:
    """Judges recordings, compiling each set of tools once."""

    def __init__(self, tools: list[object] | None = None) -> None:
        """``tools`` stand in for recordings that name none."""
        self._tools = tools
        self._contracts: dict[str, Contract] = {}

    def judge(self, number: int, line: bytes) -> Checked | Unreadable:
        """Read one line and judge the reply in it."""
        recording = read_line(number, line)
        if isinstance(recording, Unreadable):
            return recording
        try:
            contract = self._contract(recording)
        except ContractError as error:
            return Unreadable(number, f"its tools cannot be declared: {error}")
        return Checked(number, recording, contract.check(recording.response))

    def _contract(self, recording: Recording) -> Contract:
        """Find or make the contract that the recorded request amounts to."""
        tools = recording.tools or self._tools or []
        key = json.dumps([recording.tools, recording.answer, recording.channel])
        if key not in self._contracts:
            answer = str if recording.answer is None else recording.answer
            parallel = recording.channel == "native"
            self._contracts[key] = Contract(tools=tools, answer=answer, channel=recording.channel, parallel=parallel)
        return self._contracts[key]


def open_lines(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Read a JSONL file, plain or gzip: each line's number, its bytes, and how far the file itself has been read.

    Blank lines are passed over. Raises OSError when the file cannot be read, gzip.BadGzipFile when it is damaged.
    """
    with path.open("rb") as file:
        packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        file.seek(0)
        lines = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line, file.tell()


def read_line(number: int, line: bytes) -> Recording | Unreadable:
    """Read one line as a recorded reply."""
    record = decode(line, LINE_LIMITS)
    if isinstance(record, Invalid):
        return Unreadable(number, record.issues[0].message)
    if not isinstance(record, dict):
        return Unreadable(number, "not a JSON object")
    reply = record.get("reply")
    recording = _from_record(record, reply) if isinstance(reply, dict) else _from_dump(record)
    return recording or Unreadable(number, "neither a chat completion nor a record with a reply")


def _from_record(record: JSONObject, reply: JSONObject) -> Recording:
    """Read a record with ``mode``, ``tools`` and ``reply``; calls were recorded without ids."""
    calls = reply.get("tool_calls")
    message: JSONObject = {"role": "assistant", "content": reply.get("content")}
    if isinstance(calls, list):
        message["tool_calls"] = [_recorded_call(index, call) for index, call in enumerate(calls)]
    choice = {"index": 0, "message": message, "finish_reason": record.get("finish_reason")}
    schema = record.get("response_schema")
    channel: Channel = "text" if record.get("mode") == "text_calls" else "native"
    answer = schema if isinstance(schema, dict) else None
    return Recording(str(record.get("model", "-")), _tools_of(record), {"choices": [choice]}, answer, channel)


def _recorded_call(index: int, call: object) -> object:
    """Give a recorded ``{name, arguments}`` the shape of the API; anything else stays for the contract to refuse."""
    if not isinstance(call, dict) or "function" in call:
        return call
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call_{index + 1}", "type": "function", "function": {"name": call.get("name"), "arguments": text}}


def _from_dump(record: JSONObject) -> Recording | None:
    """Read a completion, or a request and its response side by side; None when there is no response."""
    request = record.get("request")
    request = request if isinstance(request, dict) else record
    found = (record.get(key) for key in _RESPONSE_KEYS)
    response = next((value for value in found if isinstance(value, dict)), record)
    if "choices" not in response:
        return None
    model = response.get("model") or request.get("model") or "-"
    return Recording(str(model), _tools_of(request), response, _asked_answer(request))


def _tools_of(request: Mapping[str, Any]) -> list[Any]:
    """Give the tools of a request, none when it has none."""
    tools = request.get("tools")
    return tools if isinstance(tools, list) else []


def _asked_answer(request: Mapping[str, Any]) -> JSONObject | None:
    """Give the schema that a request's ``response_format`` asked for."""
    wanted = request.get("response_format")
    described = wanted.get("json_schema") if isinstance(wanted, dict) else None
    schema = described.get("schema") if isinstance(described, dict) else None
    return schema if isinstance(schema, dict) else None


def _declared_name(tool: object) -> object:
    """Read the name of a recorded tool definition."""
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None
