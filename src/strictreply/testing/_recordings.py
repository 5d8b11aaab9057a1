"""Recorded replies: lines of JSON from files, read into what a contract can judge offline.

A line is a chat completion, a request and its response side by side (a cassette's, with what became of it in HTTP), or
a record with ``mode``, ``tools`` and ``reply``. What cannot be read is reported by its line, never dropped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from strictreply.batch._lines import LINE_LIMITS
from strictreply.contract._contract import Contract
from strictreply.contract._shaping import SHAPING, shape
from strictreply.reading._decoding import decode
from strictreply.values._errors import ContractError
from strictreply.values._json import Channel, JSONObject
from strictreply.values._replies import Invalid, Verdict
from strictreply.wires._opening import peek
from strictreply.wires._responses import is_response
from strictreply.wires._wire import wire_of

_RESPONSE_KEYS = ("response", "completion", "output")
_OK = 200
_ENDINGS = {"cut": "the response ended early", "reset": "the connection broke off", "hang": "nothing came in time"}
"""How a cassette says that a response ended, and what that means."""
NO_NAME = "-"  # of a model or a tool that is not there
_MOST_CONTRACTS = 1000  # kept compiled: recordings of one app ask for few, and a file may hold many apps
_SHAPING_KEYS = ("tools", *SHAPING, "functions")


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded reply: what was asked of the model, and the message or completion it gave.

    ``request`` holds the keywords of the recorded request that shape a verdict, such as ``tools`` and ``tool_choice``;
    ``declared`` the names of the tools it is judged by, once it is.
    """

    model: str
    request: JSONObject = field(repr=False)
    response: JSONObject = field(repr=False)
    channel: Channel = "native"
    declared: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def called(self) -> str:
        """The first tool that was called, for a table: ``-`` when none was, never a name that was not declared."""
        message = wire_of(self.response).message_in(self.response)
        calls = peek(self.response if message is None else message, "tool_calls")
        name = peek(peek(calls[0], "function"), "name") if isinstance(calls, list) and calls else None
        return NO_NAME if not isinstance(name, str) else name if name in self.declared else "(unknown tool)"


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line that holds no recorded reply, and why; lines count from 1."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """A recorded reply, the verdict on it, and what it was held to."""

    line: int
    recording: Recording
    verdict: Verdict
    contract: Contract = field(repr=False)


class RecordingJudge:
    """Judges recordings by what their requests asked for; ``tools`` stand in for those that name none."""

    def __init__(self, tools: list[object] | None = None) -> None:
        self._tools = tools
        self._contracts: dict[str, Contract] = {}

    def judge(self, number: int, line: bytes) -> RecordedVerdict | UnreadableLine:
        """Read one line and judge the reply in it."""
        recording = read_line(number, line)
        if isinstance(recording, UnreadableLine):
            return recording
        try:
            contract = self._contract(recording)
        except ContractError as error:
            return UnreadableLine(number, f"no contract can be made of its request: {error}")
        known = replace(recording, declared=frozenset(contract.by_name))
        return RecordedVerdict(number, known, contract.check(recording.response), contract)

    def _contract(self, recording: Recording) -> Contract:
        key = json.dumps([recording.request, recording.channel])
        if key not in self._contracts:
            if len(self._contracts) >= _MOST_CONTRACTS:
                self._contracts.clear()
            native = recording.channel == "native"
            stated = Contract(tools=self._tools or [], channel=recording.channel, parallel=native)
            self._contracts[key], _ = shape(stated, recording.request | {"messages": []})
        return self._contracts[key]


def read_line(number: int, line: bytes) -> Recording | UnreadableLine:
    """Read one line as a recorded reply."""
    record = decode(line, LINE_LIMITS)
    if isinstance(record, Invalid):
        return UnreadableLine(number, record.issues[0].message)
    if not isinstance(record, dict):
        return UnreadableLine(number, "not a JSON object")
    reply = record.get("reply")
    recording = _from_record(record, reply) if isinstance(reply, dict) else _from_dump(record)
    return recording if isinstance(recording, Recording) else UnreadableLine(number, recording)


def _from_record(record: JSONObject, reply: JSONObject) -> Recording:
    """Read a record with ``mode``, ``tools`` and ``reply``; calls were recorded as name and arguments, without ids."""
    message: JSONObject = {"role": "assistant", "content": reply.get("content")}
    recorded = reply.get("tool_calls")
    if isinstance(recorded, list):
        message["tool_calls"] = calls = [*recorded]
        for index, call in enumerate(calls):
            if isinstance(call, dict) and "function" not in call:  # what is none is for the contract to refuse
                arguments = call.get("arguments")
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                function = {"name": call.get("name"), "arguments": text}
                calls[index] = {"id": f"call_{index + 1}", "type": "function", "function": function}
    choice = {"index": 0, "message": message, "finish_reason": record.get("finish_reason")}
    schema = record.get("response_schema")
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}} if isinstance(schema, dict) else None
    channel: Channel = "text" if record.get("mode") == "text_calls" else "native"
    request = _shaping(record | {"response_format": wanted})
    return Recording(str(record.get("model", NO_NAME)), request, {"choices": [choice]}, channel)


def _from_dump(record: JSONObject) -> Recording | str:
    """Read a completion, or a request and its response side by side; or return why there is no response.

    What a cassette holds as the response is one, whatever it is: an app was given it with the status 200.
    """
    request, http = record.get("request"), record.get("http")
    request = request if isinstance(request, dict) else record
    found = (record.get(key) for key in _RESPONSE_KEYS)
    response = next((value for value in found if isinstance(value, dict)), record)
    if "choices" in response or is_response(response) or (response is not record and isinstance(http, dict)):
        model = response.get("model") or request.get("model") or NO_NAME
        asked = wire_of(response).read(request | {"messages": []} if "input" not in request else request)
        return Recording(str(model), _shaping(asked), response)
    match http:
        case {"status": int(status)} if status != _OK:
            return f"no reply: HTTP {status}"
        case {"ending": str(ending)} if ending in _ENDINGS:
            return f"no reply: {_ENDINGS[ending]}"
        case {}:
            return "no reply: the body is no completion and no response"
        case _:
            return "neither a completion, nor a response, nor a record with a reply"


def _shaping(request: JSONObject) -> JSONObject:
    """Keep the keywords of a request that shape the verdict; no tools at all are tools not recorded."""
    kept = {name: request[name] for name in _SHAPING_KEYS if request.get(name) is not None}
    if not isinstance(kept.get("tools"), list) or not kept["tools"]:
        kept.pop("tools", None)
    return kept
