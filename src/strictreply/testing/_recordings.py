"""Read recorded replies from JSON lines, so that a contract can judge them offline.

Secrets are redacted here, too. A line is a chat completion, a request with its response (from
``record``, with the HTTP status), or a record with ``mode``, ``tools`` and ``reply``. A line that
cannot be read is reported with its number, never dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from strictreply import Contract, ContractError, Invalid, Verdict
from strictreply.batch.lines import LINE_LIMITS
from strictreply.core import JSON, Channel, JSONObject, decode, shape
from strictreply.core.calls import MIN_CREDENTIAL_CHARS, REDACTED
from strictreply.core.forms import SHAPING, draft_of, is_response, read_request, read_tools
from strictreply.testing._anthropic_writer import MESSAGES_WRITER
from strictreply.wires import Api, wire_named, wire_of

# Takes a text of a request or a response, and returns it without secrets.
RedactText: TypeAlias = Callable[[str], str]

_NAMES = (
    r"(?:(?:api|access|private|secret|signing)[-_]?key"
    r"|authorization|cookie|credentials?|passphrase|passwd|password|pwd|secret|token)"
)
_NUMBER = r"-?[0-9][0-9.eE+-]*"
_SECRET_NAME = re.compile(rf"(?is).*{_NAMES}")
_NAMED = re.compile(
    rf'(?i){_NAMES}(?P<escapes>\\*)"\s*:\s*'
    rf'(?:(?P<text>(?P=escapes)")|(?P<nested>[{{\[])|(?P<number>{_NUMBER}))'
)
# As repr writes a dict.
_NAMED_IN_PYTHON = re.compile(rf"""(?i)({_NAMES}'\s*:\s*)(?:'[^'\n]*'|"[^"\n]*"|{_NUMBER})""")
_ASSIGNED = re.compile(
    rf"""(?i)({_NAMES}[ \t]*=(?!=)[ \t]*)"""
    r"""(?:(\\*["'])[^"'\\\n]+|(?:(?:basic|bearer)[ \t]+)?[^\s"'\\&,;()<>]+)"""
)
# The whole line of a header. After other names only what is not a word is a secret: "token: str"
# and "password: required" hold none.
_LABELLED = re.compile(
    r"""(?i)((?:authorization|cookie)[ \t]*:[ \t]*(?:(?:basic|bearer)[ \t]+)?)"""
    r"""[^\s"'\\][^"'\\\r\n]*"""
    rf"""|({_NAMES}[ \t]*:[ \t]*)(?=[^\s"'\\&,;()<>]{{0,200}}[0-9]|[^\s"'\\&,;()<>]{{20}})"""
    r"""[^\s"'\\&,;()<>{[]{8,}"""
)
_IN_QUERY = re.compile(
    r"""(?i)(?<=[?&])([a-z0-9_.-]{0,40}(?:key|sig|signature|auth|code|sid|session)=)"""
    r"""[^\s&"'\\#<>]{8,}"""
)
_QUOTE = re.compile(r'(?<!\\)(?P<escapes>\\*)"')
_BRACKET = re.compile(r'(?<!\\)(?P<escapes>\\*)(?:(?P<quote>")|(?P<opening>[{\[])|[}\]])')
# What follows a token of a model's text, which is not a secret.
_OF_A_MODEL = re.compile(r'\\*"\s*,\s*\\*"(?:bytes|logprob)\\*"\s*:')
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_SCHEMA_WORDS = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf"})
_SCHEMA = re.compile(
    rf"""\{{[^{{}}]{{0,2000}}?"(?:type\\*"\s*:\s*(?:\[|\\*"(?:{"|".join(_TYPES)})\\*")"""
    rf"""|(?:{"|".join(map(re.escape, sorted(_SCHEMA_WORDS)))})\\*"\s*:)"""
)
# In a text of JSON a line break before a secret is an escape.
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt]))"
_SECRETS = re.compile(
    rf"{_START}(?:(?:sk|pk|rk|xai|gsk)-|(?:sk|pk|rk)_(?:live|test)_)[A-Za-z0-9_-]{{16,}}"
    rf"|{_START}(?:gh[opsur]_|github_pat_|glpat-|gsk_|hf_|npm_|nvapi-|pplx-|pypi-|r8_"
    r"|xox[abprs]-|ya29\.|AKIA|ASIA|AIza)[A-Za-z0-9_-]{16,}"
    rf"|(?<![-.]){_START}eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*"
    r"|(?:(?<=[Bb]earer )|(?<=BEARER ))(?!-)"
    r"(?=[A-Za-z._~+/=-]*[0-9]|[a-z._~+/=-]+[A-Z]|[A-Z]{2})[A-Za-z0-9._~+/=-]{8,}"
    r"|(?i:(?<=basic )(?=[A-Za-z+/]*[0-9])[A-Za-z0-9+/]{8,}={0,2})"
    r"|(?<=://)[^/\s:@\"\\]*:[^/\s@\"\\]+(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)


def redacted(text: str) -> str:
    """Remove texts that look like secrets.

    These are keys such as ``sk-…``, tokens, and values under a secret's name, except schemas.
    """
    parts: list[str] = []
    end = 0

    for name in _NAMED.finditer(text):
        span = _secret_span(text, name) if name.start() >= end else None
        if span is not None:
            quote = "" if name["text"] else f'{name["escapes"]}"'
            parts += [text[end : span[0]], quote, REDACTED, quote]
            end = span[1]

    text = _NAMED_IN_PYTHON.sub(rf"\1'{REDACTED}'", "".join([*parts, text[end:]]))
    text = _IN_QUERY.sub(rf"\1{REDACTED}", _LABELLED.sub(rf"\1\2{REDACTED}", text))
    return _SECRETS.sub(REDACTED, _ASSIGNED.sub(rf"\1\2{REDACTED}", text))


@dataclass(frozen=True, slots=True)
class Redaction:
    """Removes texts that look like secrets, the known ``secrets``, and what ``more`` removes."""

    more: RedactText | None = None
    secrets: tuple[str, ...] = ()

    def knowing(self, secrets: tuple[str, ...]) -> Redaction:
        """Return a redaction that also removes these texts, if long enough to be secrets."""
        long = (one for one in secrets if len(one) >= MIN_CREDENTIAL_CHARS)
        return replace(self, secrets=tuple(dict.fromkeys((*self.secrets, *long))))

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, REDACTED)

        text = redacted(text)
        return self.more(text) if self.more else text

    def value(self, value: Any, name: str = "") -> Any:
        """Return a JSON value without secrets.

        Under a secret's ``name`` only literals and JSON Schemas stay.
        """
        if isinstance(value, list):
            return [self.value(member, name) for member in value]
        if _may_be_secret(value) and _SECRET_NAME.fullmatch(name):
            return REDACTED

        if isinstance(value, dict):
            no_secret = "token" if "logprob" in value else None  # a piece of the model's text
            return {
                self.text(key): self.value(one, "" if key == no_secret else key)
                for key, one in value.items()
            }

        return self.text(value) if isinstance(value, str) else value


def _may_be_secret(value: object) -> bool:
    if isinstance(value, dict):
        named = value.get("type")
        is_schema = _SCHEMA_WORDS & value.keys() or isinstance(named, list) or named in _TYPES
        return bool(value) and not is_schema

    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _secret_span(text: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Find the text to remove after a secret's name.

    None if it is a JSON Schema, or a token of a model's text.
    """
    escapes = len(name["escapes"])
    if name["text"]:
        end = _closing(text, name.end(), escapes)
        alone = text[max(0, name.start() - 1) : name.start("escapes")] == '"token'
        return None if alone and _OF_A_MODEL.match(text, end) else (name.end(), end)

    if name["nested"]:
        start = name.start("nested")
        if _SCHEMA.match(text, start):
            return None
        return start, _closing_bracket(text, start, escapes)

    return name.span("number")


def _closing_bracket(text: str, start: int, escapes: int) -> int:
    """Find the end of an object or an array; at most the end of the text that it stands in.

    ``escapes`` is how many backslashes there are before its quotes.
    """
    depth = 0
    at = start
    while found := _BRACKET.search(text, at):
        at = found.end()
        if found["quote"]:
            if len(found["escapes"]) < escapes:
                return found.start()
            at = _closing(text, at, escapes) + escapes + 1
            continue

        depth += 1 if found["opening"] else -1
        if depth == 0:
            return at

    return len(text)


def _closing(text: str, start: int, escapes: int) -> int:
    """Find the end of a JSON string (RFC 8259 section 7).

    ``escapes`` is how many backslashes there are before its quotes.
    """
    for quote in _QUOTE.finditer(text, start):
        if len(quote["escapes"]) % (2 * (escapes + 1)) == escapes:
            return quote.end() - 1 - escapes

    return len(text)


_OK = 200
# The names that ``record`` uses for the ending of a response, and their meanings.
_ENDINGS = {
    "cut": "the response ended early",
    "reset": "the connection broke off",
    "hang": "nothing came in time",
}
NO_NAME = "-"  # of a model or a tool that is not there
# How many are kept compiled: recordings of one app ask for few, and a file may hold many apps.
_MOST_CONTRACTS = 1000


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded reply."""

    model: str
    """Name of the model that replied."""
    request: JSONObject = field(repr=False)
    """The keywords of its request that shape a verdict."""
    response: JSONObject = field(repr=False)
    """The message or the completion."""
    channel: Channel = "native"
    """Where calls are written."""
    declared: frozenset[str] = field(default=frozenset(), repr=False)
    """Names of the tools that the request declares."""
    api: Api = "chat"
    """The API of the request."""

    @property
    def called(self) -> str:
        """The first tool that was called, for a table.

        ``-`` when no tool was called; a name that was not declared is never shown.
        """
        draft = wire_named(self.api).draft_in(self.response) or draft_of(self.response)
        name = draft.calls[0].name if draft.calls else None

        if not isinstance(name, str):
            return NO_NAME
        return name if name in self.declared else "(unknown tool)"


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line without a recorded reply, and the reason; lines are counted from 1."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """A recorded reply, its verdict, and the contract that judged it."""

    line: int
    recording: Recording
    verdict: Verdict
    contract: Contract = field(repr=False)


class RecordingJudge:
    """Judges recordings by the tools and the answer in their requests.

    ``tools`` are used for requests without tools.
    """

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


_KEYWORDS: Mapping[str, Callable[[JSONObject], JSONObject]] = {
    "chat": read_tools,
    "responses": read_request,
    "messages": MESSAGES_WRITER.asked,
}
"""Functions that read a request of an API into the keywords of chat completions."""


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
    """Read a record with ``mode``, ``tools`` and ``reply``.

    Calls were recorded as name and arguments, without ids.
    """
    message: JSONObject = {"role": "assistant", "content": reply.get("content")}
    recorded = reply.get("tool_calls")
    if isinstance(recorded, list):
        calls = [*recorded]
        message["tool_calls"] = calls
        for index, call in enumerate(calls):
            # the contract refuses values that are not calls
            if isinstance(call, dict) and "function" not in call:
                arguments = call.get("arguments")
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                function = {"name": call.get("name"), "arguments": text}
                calls[index] = {"id": f"call_{index + 1}", "type": "function", "function": function}

    choice = {"index": 0, "message": message, "finish_reason": record.get("finish_reason")}
    schema = record.get("response_schema")
    wanted: JSON = None
    if isinstance(schema, dict):
        wanted = {"type": "json_schema", "json_schema": {"schema": schema}}

    channel: Channel = "text" if record.get("mode") == "text_calls" else "native"
    request = _shaping(record | {"response_format": wanted})
    return Recording(str(record.get("model", NO_NAME)), request, {"choices": [choice]}, channel)


def _from_dump(record: JSONObject) -> Recording | str:
    """Read a completion, or a request with its response.

    Return the reason, as text, when there is no response.
    """
    request = record.get("request")
    request = request if isinstance(request, dict) else record
    http = record.get("http")

    found = (record.get(key) for key in ("response", "completion", "output"))
    response = next((value for value in found if isinstance(value, dict)), record)
    wire = wire_of(response)
    is_reply = "choices" in response or is_response(response) or wire is MESSAGES_WRITER.wire
    if not is_reply and (response is record or not isinstance(http, dict)):
        return _no_reply(record)

    model = response.get("model") or request.get("model") or NO_NAME
    if "input" not in request:
        request = request | {"messages": []}
    try:
        asked = _KEYWORDS[wire.name](request)
    except ContractError as error:
        return f"no contract can be made of its request: {error}"

    return Recording(str(model), _shaping(asked), response, api=cast("Api", wire.name))


def _no_reply(record: JSONObject) -> str:
    """Return why an exchange has no reply: from its HTTP part, or its form."""
    match record.get("http"):
        case {"status": int(status)} if status != _OK:
            return f"no reply: HTTP {status}"
        case {"ending": str(ending)} if ending in _ENDINGS:
            return f"no reply: {_ENDINGS[ending]}"
        case {}:
            return "no reply: the body is not a completion, response or message"
        case _ if "custom_id" in record:
            return "a line of a provider's batch: strictreply batch validate judges these files"
        case _:
            return "no completion, response or message, and no record with one"


def _shaping(request: JSONObject) -> JSONObject:
    """Keep the keywords of a request that shape the verdict.

    An empty list of tools means that the tools were not recorded.
    """
    members = {
        name: request[name]
        for name in ("tools", *SHAPING, "functions")
        if request.get(name) is not None
    }
    if not isinstance(members.get("tools"), list) or not members["tools"]:
        members.pop("tools", None)

    return members
