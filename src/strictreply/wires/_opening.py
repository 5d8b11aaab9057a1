"""What a wire is, and what each one needs.

That is the form of an opened response, the table of bad endings, and the reading of server-sent
events.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, cast

import jiter

from strictreply.reading._decoding import decode
from strictreply.values._issues import Code, Issue, quote
from strictreply.values._limits import JSON, MAX_JSON_DEPTH, JSONObject, Limits
from strictreply.values._replies import Invalid, ToolCall, UsageNames
from strictreply.wires._dialects import NeedsNothing
from strictreply.wires._error_forms import (
    PHRASES,
    STATUSES,
    error_beside,
    error_of,
    meaning_of,
)

_CUT = Code.REPLY_TRUNCATED
_FILTERED = Code.REPLY_CONTENT_FILTER
_REFUSED = Code.REPLY_REFUSAL
_CALL = Code.CALL_UNREADABLE
_REPLY = Code.REPLY_UNREADABLE
_BROKEN = Code.REPLY_BROKEN_OFF

REASONS: Mapping[str, Code] = {
    # OpenAI API reference, chat completion object; TGI, Ollama (ollama#4235), llama.cpp alike
    "length": _CUT,
    # Anthropic, handling stop reasons; Bedrock API_runtime_Converse; Gemini FinishReason
    "max_tokens": _CUT,
    # OpenAI API reference, incomplete_details.reason of the Responses API
    "max_output_tokens": _CUT,
    "incomplete": _CUT,  # OpenAI API reference, status of the Responses API
    "model_length": _CUT,  # Mistral's OpenAPI document, ChatCompletionChoice.finish_reason
    # Anthropic, handling stop reasons; Z.ai (anomalyco/opencode#18918)
    "model_context_window_exceeded": _CUT,
    # Anthropic, context compaction; litellm core_helpers.py counts it as length, too
    "compaction": _CUT,
    "content_filter": _FILTERED,  # OpenAI API reference; Azure OpenAI, content filtering
    "content_filtered": _FILTERED,  # Bedrock API_runtime_Converse, stopReason
    "guardrail_intervened": _FILTERED,  # Bedrock API_runtime_Converse, stopReason
    "sensitive": _FILTERED,  # Z.ai API reference, finish_reason (genkit-ai/genkit#6259)
    "error_toxic": _FILTERED,  # Cohere API reference, finish_reason (litellm core_helpers.py)
    "safety": _FILTERED,  # Gemini API reference, FinishReason; so are the next ones
    "recitation": _FILTERED,
    "language": _FILTERED,
    "blocklist": _FILTERED,
    "prohibited_content": _FILTERED,
    "spii": _FILTERED,
    "image_safety": _FILTERED,
    "image_prohibited_content": _FILTERED,
    "image_recitation": _FILTERED,
    "model_armor": _FILTERED,  # Vertex AI reference, FinishReason (theopenco/llmgateway#2218)
    # Anthropic, handling stop reasons; lost as a stop in LiteLLM (BerriAI/litellm#23800)
    "refusal": _REFUSED,
    # Gemini FinishReason; "function_call_filter: …" in its OpenAI endpoint
    "malformed_function_call": _CALL,
    "function_call_filter": _CALL,  # Gemini's OpenAI endpoint: the first half of the same words
    "unexpected_tool_call": _CALL,  # Gemini FinishReason (google-gemini-php/client#137)
    "too_many_tool_calls": _CALL,  # Gemini FinishReason (google-gemini-php/client#137)
    "malformed_tool_use": _CALL,  # Bedrock API_runtime_Converse, stopReason (janeapp/riffer#419)
    # Bedrock API_runtime_Converse, stopReason (janeapp/riffer#419)
    "malformed_model_output": _REPLY,
    "malformed_response": _REPLY,  # Gemini FinishReason (BerriAI/litellm#22138)
    "error": _BROKEN,  # Mistral's OpenAPI document; OpenRouter, errors and debugging; vLLM
    "abort": _BROKEN,  # vLLM, SGLang (sgl-project/sglang#6693)
    "repetition": _BROKEN,  # vLLM, repetition detection (BerriAI/litellm#27101)
    "insufficient_system_resource": _BROKEN,  # DeepSeek API reference, finish_reason
    "network_error": _BROKEN,  # Z.ai API reference, finish_reason (genkit-ai/genkit#6259)
    "pause_turn": _BROKEN,  # Anthropic, handling stop reasons: the turn is not over
    "missing_thought_signature": _BROKEN,  # Gemini FinishReason (litellm core_helpers.py)
    "other": _BROKEN,  # Gemini FinishReason: "all other reasons that stopped the token generation"
    "load": _BROKEN,  # Ollama done_reason: the model was only loaded (ollama#4235)
    # Ollama done_reason: the model was only unloaded (tetsuo-ai/agenc-core#2587)
    "unload": _BROKEN,
    # OpenAI API reference, status of the Responses API; so are the next ones
    "in_progress": _BROKEN,
    "queued": _BROKEN,
    "max_messages": _BROKEN,  # incomplete_details.reason
    "steered": _BROKEN,
    # gateways' own words
    **dict.fromkeys(("failed", "aborted", "cancelled", "canceled", "timeout"), _BROKEN),
}
"""What the reason of an end means; a word that is not here says nothing against the reply."""

ERRORS: Mapping[str, Code] = {
    "tool_use_failed": _CALL,  # Groq, 400 with failed_generation (groq/groq-typescript#28)
    "json_validate_failed": _REPLY,  # Groq, JSON mode, 400 (thepersonalaicompany/amurex-backend#38)
    "content_filter": _FILTERED,  # Azure OpenAI, 400 for the prompt (compl-ai/compl-ai#20)
    # Azure innererror.code; all that LiteLLM keeps of it (litellm#16231)
    "responsibleaipolicyviolation": _FILTERED,
    "content_policy_violation": _FILTERED,  # OpenRouter, errors and debugging, 403; LiteLLM
    "data_inspection_failed": _FILTERED,  # Alibaba Model Studio, 400 (camel-ai/owl#432)
    "datainspectionfailed": _FILTERED,  # Alibaba DashScope, 400 (QwenLM/Qwen#938)
    # DeepSeek, 400: its message, the code is no other (666ghj/BettaFish#108)
    "content_exists_risk": _FILTERED,
    # SGLang, 400: its type, the message is the status alone (sgl-project/sglang#4300)
    "failed_to_parse_fc_related_info_to_json_format!": _CALL,
}
"""What an error says of the model's reply, by its code, its type, or the whole of its message."""

ERROR_OPENINGS: Mapping[str, Code] = {
    # Ollama, 500 for what its own model wrote (ollama/ollama#17638)
    "error parsing tool call": _CALL,
    "failed to parse input at pos": _CALL,  # llama.cpp, 500 likewise (ggml-org/llama.cpp#24644)
    # llama.cpp, 500: of the model's call, or of one in the conversation (vxcontrol/pentagi#313)
    "failed to parse tool call arguments as json": _CALL,
    # Bedrock, Nova (strands-agents/harness-sdk#649)
    "model produced invalid sequence as part of tooluse": _CALL,
    # Ollama, 500, of the calls that Qwen writes as XML (ollama/ollama#17276)
    "xml syntax error on line": _CALL,
    "failed to parse xml: xml syntax error": _CALL,  # Ollama, of GLM (continuedev/continue#10896)
    "expected element type <function> but have": _CALL,  # Ollama (continuedev/continue#10896)
    # vLLM, 400, of its own reading of forced calls (vllm-project/vllm#27921)
    "1 validation error for list[function": _CALL,
    # llama.cpp, 500, of any format that it parses (ggml-org/llama.cpp#27025, #25072)
    "the model produced output that does not match the expected": _REPLY,
    # OpenAI, Azure, 500: of the model, or of a result in the conversation (aka.ms/model-error)
    "the model produced invalid content": _REPLY,
    "model generated invalid json": _REPLY,  # Gemini, 400 (scriptit-fr/GenAIApp#101)
    # OpenAI, Azure, 400 (decolua/9router#972)
    "could not finish the message because max_tokens": _CUT,
    "output blocked by content filtering policy": _FILTERED,  # Anthropic, 400 (cline/cline#5)
    # MiniMax, its codes 1026 and 1027 (docs/api-reference/errorcode)
    "input new_sensitive": _FILTERED,
    "output new_sensitive": _FILTERED,
    # OpenAI, 400 (BeehiveInnovations/pal-mcp-server#178)
    "invalid prompt: your prompt was flagged": _FILTERED,
}
"""How the message of an error begins that names no code of its own."""

OF_CONVERSATION = (
    "failed to parse tool call arguments as json",
    "the model produced invalid content",
)
"""Such openings that may also be about a turn of the conversation, where no re-ask can mend it."""

WORST_FIRST = (_REFUSED, _FILTERED, _CUT, _CALL, _REPLY, Code.ENVELOPE_ERROR, _BROKEN)
"""The bad endings, worst first: of several the worst is believed, also a native reason."""

ENVELOPE_FACTOR = 16
"""How many times as large as a reply a response may be: it holds log probabilities too."""

DONE = b"data: [DONE]\n\n"
"""The event that ends a stream of the chat completions API; it is not JSON."""

DONE_DATA = b"[DONE]"

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the end may be half of a CRLF
_PLAIN = re.compile(rb"(?:event: ([a-z._]+)\n)?data: ([^\r\n]*)\n\n")
_BOM = b"\xef\xbb\xbf"

_MOST_ACCOUNTS = 8  # of one error, repeated by gateways
_MOST_SAID = 64_000  # characters of a message that may hold another error
_MOST_BEGUN = 200
_PREFIXES = re.compile(
    # LiteLLM's, the SDK's: "litellm.BadRequestError: GroqException - Error code: 400 - {…}"
    r"(?:(?:litellm\.)?\w{0,60}(?:Error|Exception)(?: \w{0,60}(?:Error|Exception))?(?:: | - )"
    r"|Error code: \d{3} - "
    # Portkey's "groq error: …" (Portkey-AI/gateway, src/providers/utils.ts); LM Studio's "Engine
    # protocol predict stream returned an error: {…}" (lmstudio-ai/lmstudio-bug-tracker#2182)
    r"|[\w-]{1,40}(?: [\w-]{1,40}){0,7} error: )+"
)
_QUOTED_WORDS = re.compile(r"""['"](?:message|error)\\?['"]: ?\\?['"]""")
_CONTENT_TYPE = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}")
_OTHER_TEXT = "another text"
JSON_OBJECT = "a JSON object"
_EVENT_FIELDS = (b"data:", b"event:", b"error:", b"id:", b"retry:", b":")


class Event(NamedTuple):
    """One event: its type (empty for none), its data, and the bytes it was written in."""

    name: str
    data: bytes
    raw: bytes


class EventReader:
    """Reads events as their bytes come; one is complete with the blank line behind it."""

    def __init__(self) -> None:
        self._rest = b""
        self._pending: list[bytes] = []
        self._name = ""
        self._data: list[bytes] = []
        self._raw: list[bytes] = []
        self.began = False
        self.idle_lines = 0  # that came since the last event
        self._has_feeds = False

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that are complete with these bytes."""
        goes_on = b"\n" not in piece and b"\r" not in piece
        if goes_on and self.began and not self._rest.endswith(b"\r"):
            # a long line is joined and searched once, however it comes
            self._pending.append(piece)
            return

        rest = self._joined() + piece if self._rest or self._pending else piece
        if not self.began:
            if _BOM.startswith(rest):
                self._rest = rest
                return

            self.began = True
            rest = rest.removeprefix(_BOM)

        at = 0
        # how servers write all but a few
        while not self._raw and (plain := _PLAIN.match(rest, at)):
            at = plain.end()
            self._has_feeds = True
            self.idle_lines = 0
            yield Event((plain[1] or b"").decode(), plain[2], plain[0])

        while end := _LINE_END.search(rest, at):
            self._has_feeds |= end[0] != b"\r"
            yield from self._line(rest[at : end.start()], rest[at : end.end()])
            at = end.end()

        self._rest = rest[at:]

    def _joined(self) -> bytes:
        rest = b"".join((self._rest, *self._pending))
        self._rest = b""
        self._pending = []
        return rest

    @property
    def held(self) -> int:
        """How many bytes wait for the end of their line."""
        return len(self._rest) + sum(map(len, self._pending))

    def end(self) -> Iterator[Event]:
        """Yield the event that the end of the stream completes.

        There is one where lines end in CR: the last CR might have been half of a CRLF.
        """
        if self._rest.endswith(b"\r") and not self._has_feeds:
            rest = self._rest
            self._rest = b""
            yield from self._line(rest[:-1], rest)

    def last(self) -> Iterator[Event]:
        """Yield the event whose blank line never came, as it stands at the end of a recording."""
        rest = self._joined()
        if rest:
            yield from self._line(rest.removesuffix(b"\r"), rest)

        yield from self._line(b"", b"")

    def _line(self, line: bytes, raw: bytes) -> Iterator[Event]:
        self._raw.append(raw)
        self.idle_lines += 1

        if not line:
            if self._data:
                self.idle_lines = 0
                yield Event(self._name, b"\n".join(self._data), b"".join(self._raw))

            self._name = ""
            self._data = []
            self._raw = []
            return

        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.decode("utf-8", "replace").strip()
        elif field == b"error":  # llama.cpp writes its errors so (ggml-org/llama.cpp#14566)
            self._name = "error"
            self._data.append(value.removeprefix(b" "))


def event(chunk: JSON) -> bytes:
    """Return JSON as an event, in ASCII, so that no line or character can be cut by accident."""
    return b"data: %s\n\n" % json.dumps(chunk).encode()


def typed_event(chunk: JSON) -> bytes:
    """Return JSON as an event that has the name of its ``type``, as the Responses API does."""
    kind = chunk.get("type") if isinstance(chunk, dict) else None
    return b"event: %s\n%s" % (str(kind).encode(), event(chunk))


@dataclass(frozen=True, slots=True)
class Opened:
    """The assistant message of a response, in the one form that is judged.

    It may be a mapping or an SDK object. ``promised``: the response ended to have a tool called.
    ``leniency`` names the ways of servers it was written in, ``came`` is the message before that,
    None where it is not plain JSON. Nothing judges ``server_calls`` (of tools of the API's that the
    program answers), ``served`` (it called one itself) and ``medium`` (an answer that is not a
    text).
    """

    message: object
    promised: bool = False
    leniency: tuple[str, ...] = ()
    came: JSONObject | None = None
    server_calls: tuple[ToolCall, ...] = ()
    served: bool = False
    medium: str = ""


PROMISING = frozenset({"tool_calls", "function_call", "tool_use"})
"""The reasons that promise a call (OpenAI; Anthropic and Bedrock)."""


class Assembly(ABC):
    """Puts the events of one stream together.

    ``names`` are the tools that may be called. What servers send otherwise than the API is read by
    the rows of :data:`~strictreply.wires._dialects.STREAM_DIALECTS`, or refused when ``strict``.

    ``fault`` is the first that has no one meaning, ``is_done``: its end came, ``is_over``: no more
    is to be read. ``size`` counts the characters of its texts. ``leniency`` names the rows that
    were needed. The others are about the last event: ``delta`` is what it added, as a delta of the
    message; ``is_text_alone``: nothing of the reply but text of an answer; ``is_piece``: one more
    piece of a text or arguments; ``passed``: the event as the API would have sent it, None where it
    is so already; ``is_ignored``: it says nothing of the reply; ``is_beside``: nothing judges what
    it is about, so that it may reach the caller before the reply has passed; ``is_frame``: it only
    begins or ends something. ``holds_pieces``: the rest of a reply is made of its events, pieces
    and end included.
    """

    holds_pieces = False

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        self.names = names
        self.fault: Issue | None = None
        self.is_done = self.is_over = self.is_text_alone = self.is_piece = False
        self.is_ignored = self.is_beside = self.is_frame = False
        self.size = 0
        self.delta: JSONObject = {}
        self.passed: JSONObject | None = None
        self._strict = strict
        self._rows: dict[str, None] = {}

    @property
    def leniency(self) -> tuple[str, ...]:
        """The names of the rows that were needed, in order."""
        return tuple(self._rows)

    def reads(self, row: str) -> bool:
        """Record that a row is needed; return whether it may be read."""
        if not self._strict:
            self._rows[row] = None

        return not self._strict

    @property
    def has_thoughts(self) -> bool:
        """Whether thoughts came that may be signed."""
        return False

    @abstractmethod
    def add(self, chunk: JSON) -> None:
        """Take one event."""

    @abstractmethod
    def end(self, *, is_told: bool = False) -> None:
        """Take the end of the stream, which was not broken off; ``is_told``: ``[DONE]`` came."""

    def refuse(self, code: Code, path: str, **words: str) -> None:
        """Report a fault; the first one counts."""
        self.fault = self.fault or Issue.of(code, path, **words)
        self.is_over = True

    @abstractmethod
    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the response that the events make.

        Without its end, or not ``is_whole``, as one broken off.
        """

    @abstractmethod
    def came(self) -> JSONObject | None:
        """Return what has come of a response that broke off, None where nothing of it has.

        Its tokens are estimated from it, so that thoughts in pieces are in it.
        """


class SentSoFar(Protocol):
    """The part of a reply that has been passed on to a caller as events.

    ``text`` is that of its answer.
    """

    @property
    def text(self) -> str: ...

    def begin(self) -> None:
        """Begin with another stream: nothing of it is held."""

    def add(self, event: JSON) -> None:
        """Take an event that is passed on, also one that was held until then."""

    def hold(self, event: JSON) -> None:
        """Take an event that is not passed on as it comes."""

    def told_id(self, response: JSONObject) -> JSON:
        """Return the id that was told of an accepted response that has another one, else None."""

    def rest(self, response: JSONObject, came: JSONObject | None) -> Iterator[JSONObject]:
        """Yield the events left of an accepted response behind that text.

        ``came`` is the response as the stream of that text brought it, None when the accepted one
        is of another stream.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One API by which models are asked.

    All packages above work with requests and messages as chat completions have them.

    - ``name`` is for ``api=``; ``resource`` is where the openai SDK has the API, ``path`` where
      requests go, ``sdk_types`` its module and its classes of a response and of an event; ``usage``
      names the three counts of tokens; ``ends_with_done``: streams end with ``[DONE]``.
    - ``read`` returns the keywords of a request in the one form, ``written`` a request as the API
      takes it; ``kept_by``: the keyword, if any, with which the server keeps every reply as it
      came, so that none is put together of several; ``streamed``: what has to be added to a request
      for a stream to report its usage.
    - ``opened`` returns the one message to judge, or why there is none; ``message_in`` the message
      of a response, however it ended; ``with_message`` a response with another message; ``reasons``
      the words for how it ended.
    - ``assembly`` makes what puts the events of one stream together, ``sent`` what keeps how much
      of a reply has been passed on, with its usage if wanted.
    """

    name: str
    resource: str
    path: str
    sdk_types: tuple[str, str, str]
    usage: UsageNames
    ends_with_done: bool
    read: Callable[[JSONObject], JSONObject]
    written: Callable[[JSONObject], JSONObject]
    kept_by: str
    streamed: JSONObject
    opened: Callable[[object, NeedsNothing | None], Opened | Invalid]
    message_in: Callable[[JSON], JSONObject | None]
    with_message: Callable[[JSONObject, JSONObject], JSONObject]
    reasons: Callable[[JSON], list[str]]
    assembly: Callable[..., Assembly]
    sent: Callable[[bool], SentSoFar]


def peek(value: object, name: str) -> object:
    """Read a member of a mapping or an attribute of an SDK object; None when there is none."""
    if type(value) is dict or isinstance(value, Mapping):  # the first alone is fast
        return value.get(name)
    return None if isinstance(value, str | bytes | list) else getattr(value, name, None)


def refused(code: Code, path: str, *, found: str = "", **words: str) -> Invalid:
    """Refuse with one issue."""
    return Invalid((Issue.of(code, path, found=found, **words),))


def reason_code(reason: object) -> Code | None:
    """Return what a reason means, None when it is not a bad one.

    The whole word counts, or one half of ``function_call_filter: MALFORMED_FUNCTION_CALL``.
    """
    if not isinstance(reason, str):
        return None

    first, _, last = reason.partition(":")
    return REASONS.get(word_of(reason)) or REASONS.get(word_of(last)) or REASONS.get(word_of(first))


def error_code(error: object) -> Code:
    """Return what an error says of the model's reply.

    The code is ``envelope.error`` for one that says nothing of it.
    """
    told = accounts_of(error)
    for account in told:
        said = (peek(account, "code"), peek(account, "type"), message_of(account))
        for word in (*said, meaning_of(account)):
            if isinstance(word, str) and word_of(word) in ERRORS:
                return ERRORS[word_of(word)]

    for account in told:
        start = _beginning(account)
        for opening, code in ERROR_OPENINGS.items():
            if start.startswith(opening):
                return code

    # what holds the model's words is the model's fault, whatever it is called
    # (langchain-ai/langchain#31459)
    is_models = any(peek(account, "failed_generation") for account in told)
    return Code.REPLY_UNREADABLE if is_models else Code.ENVELOPE_ERROR


def may_be_of_conversation(error: object) -> bool:
    """Return whether an error about a call may be about one in the conversation that was sent."""
    return any(_beginning(account).startswith(OF_CONVERSATION) for account in accounts_of(error))


def _beginning(account: object) -> str:
    return message_of(account).lstrip()[:_MOST_BEGUN].lower()


def message_of(error: object) -> str:
    """Return the message of an error, empty when it has none."""
    message = error if isinstance(error, str) else peek(error, "message")
    return message if isinstance(message, str) else ""


def accounts_of(error: object) -> list[object]:
    """Return an error, and behind it each error that it repeats, up to some number.

    Gateways put what a provider said into a member of their own error, or behind a prefix of its
    message.
    """
    told: list[object] = []
    pending = [error]
    while pending and len(told) < _MOST_ACCOUNTS:
        one = pending.pop(0)
        if isinstance(one, list):  # Cloudflare's gateway; Hugging Face
            pending += one[:_MOST_ACCOUNTS]
            continue

        told.append(one)

        message = peek(one, "message")
        repeated = (
            peek(one, "innererror"),  # Azure
            peek(peek(one, "provider_specific_fields"), "innererror"),  # LiteLLM
            peek(peek(one, "metadata"), "raw"),  # OpenRouter
            peek(one, "error"),
            None if message else error_of(one),
            message if isinstance(message, Mapping) else _behind_prefixes(message_of(one)),
        )
        pending += [inner for inner in repeated if inner]

    return told


def _behind_prefixes(message: str) -> object:
    """Return the error behind the prefixes of a message; None when it repeats none."""
    prefix = _PREFIXES.match(message)
    rest = message[prefix.end() if prefix else 0 :][:_MOST_SAID].lstrip()
    rest = rest.removeprefix("b'").removeprefix('b"')
    if not rest.startswith("{"):
        return rest if prefix else None

    try:
        repeated, _ = json.JSONDecoder().raw_decode(rest)
    except (ValueError, RecursionError):
        # the text of an object of Python's, or cut
        words = _QUOTED_WORDS.search(rest)
        return rest[words.end() :] if words else rest

    return error_in(repeated) or repeated


def error_in(response: object) -> object:
    """Return the error that a response is or holds; None when there is none.

    It stands under ``error``, on the choice, or is the whole response in a form of
    :data:`~strictreply.wires._error_forms.ERROR_FORMS`.
    """
    if isinstance(response, list) and len(response) == 1:
        response = response[0]  # Gemini's compatible endpoint

    choices = peek(response, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    has_reply = choice is not None or bool(peek(response, "output"))
    fields = [peek(one, "provider_specific_fields") for one in (choice, peek(choice, "message"))]
    for holder in (response, choice, *fields):
        error = peek(holder, "error")
        if isinstance(error, str) and error and holder is response and not has_reply:
            return _with_members(error, response)
        if error:
            return error

    return error_beside(response) if has_reply else error_of(response)


def _with_members(error: str, response: object) -> object:
    """Return an error that is a text; where more of it stands beside the text, the whole."""
    # TGI's error_type; a ``status``; OAuth's error_description
    said = ("message", "error_type", "code", "error_description")
    has_more = any(peek(response, name) for name in said)
    return response if has_more or isinstance(peek(response, "status"), int) else error


def status_of(word: object) -> int | None:
    """Return the HTTP status that a word stands for, whole or by one of its halves.

    ``Throttling.AllocationQuota`` is a DashScope code, ``policies.ratelimit.QuotaViolation`` one of
    Apigee, ``com.amazon#ThrottlingException`` a type of AWS.
    """
    if not isinstance(word, str) or len(word) > _MOST_BEGUN:
        return None

    word = word.rpartition("#")[2]
    first = STATUSES.get(word_of(word.partition(".")[0]))
    return STATUSES.get(word_of(word)) or first


def phrase_status(message: object) -> int | None:
    """Return the HTTP status that a whole message names, such as ``Unauthorized``."""
    if not isinstance(message, str) or len(message) > _MOST_BEGUN:
        return None

    return PHRASES.get(message.strip().rstrip(".!").lower())


def word_of(text: str) -> str:
    """Return a word in the form of the tables.

    ``FinishReason.MAX_TOKENS`` is how an enum prints itself.
    """
    return text.strip().rpartition(".")[2].lower().replace("-", "_").replace(" ", "_")


def worst_of(found: Iterable[tuple[Code, str, object]]) -> Issue | None:
    """Return the issue of the worst of the bad endings; None when there is none.

    Each comes with its place and with what stands there.
    """
    worst = min(found, key=lambda one: WORST_FIRST.index(one[0]), default=None)
    if worst is None:
        return None

    code, at, said = worst
    return Issue.of(code, at, found=quote(peek(said, "message") or said))


def ids_in(messages: Iterable[object]) -> list[str]:
    """Return the ids of the calls in a conversation, in order.

    Calls stand in messages, or are items of their own.
    """
    ids: list[str] = []
    for message in messages:
        if type(message) is dict and not message.get("tool_calls") and "call_id" not in message:
            continue  # most messages

        calls = peek(message, "tool_calls")
        found = [peek(one, "id") for one in calls] if isinstance(calls, list | tuple) else []
        if str(peek(message, "type")).endswith("_call"):
            found.append(peek(message, "call_id"))

        ids += [id_ for id_ in found if isinstance(id_, str)]

    return ids


def read_body(body: bytes, limits: Limits) -> JSON:
    """Return the JSON of a response's body; a byte order mark before it says nothing.

    None when it is not strict JSON, or beyond the caps for a reply of these ``limits``.
    """
    body = body.removeprefix(_BOM)
    value = decode(body, _around(limits))
    if not isinstance(value, Invalid):
        return value
    if any(issue.code != Code.JSON_NOT_FINITE.value for issue in value.issues):
        return None

    # as null, since servers send them in what is not ours, such as log probabilities
    return _finite(cast("JSON", jiter.from_json(body, allow_inf_nan=True)))


def told_body(body: bytes, limits: Limits, content_type: str = "") -> tuple[JSON, Issue | None]:
    """Return what :func:`read_body` does, and what is wrong with a body that it cannot read.

    A body that names a status in words, such as ``Unauthorized``, is an error of these words.
    """
    value = read_body(body, limits)
    text = body[: _MOST_BEGUN + 1].decode("utf-8", "replace") if value is None else value
    if phrase_status(text) is not None:
        return {"error": text}, None
    if value is not None or body.strip() == b"null":
        return value, None

    return None, not_asked(JSON_OBJECT, content_type, body)


def is_events(body: bytes) -> bool:
    """Return whether a body begins as a stream of events does; an empty one is such a stream."""
    begun = _begun(body)
    return not begun or begun.startswith(_EVENT_FIELDS)


def _begun(body: bytes) -> bytes:
    return body.removeprefix(_BOM).lstrip()[:_MOST_BEGUN]


def not_asked(expected: str, content_type: str, body: bytes) -> Issue:
    """Report a body in another form than was asked for, with its content type and first bytes.

    ``expected`` is that form.
    """
    begun = _begun(body)
    named = _CONTENT_TYPE.match(content_type.strip().lower())
    kind = named[0] if named else _OTHER_TEXT

    if not begun:
        kind = "an empty body"
    elif begun[:9].lower().startswith((b"<!doctype", b"<html")):
        kind = "text/html"
    elif begun.startswith(_EVENT_FIELDS):
        kind = "text/event-stream"
    elif begun.startswith((b"{", b"[")) and expected == JSON_OBJECT and _is_json(kind):
        kind = "JSON that is cut, too large or not strict"

    words = f"{expected}, not {kind}"
    # of an empty body the content type is all that there is
    came = begun.decode("utf-8", "replace") if begun or not named else f"nothing, as {named[0]}"
    found = quote(came)
    return Issue.of(Code.ENVELOPE_MALFORMED, expected=words, found=found)


def _is_json(content_type: str) -> bool:
    return "json" in content_type or content_type == _OTHER_TEXT


@lru_cache
def _around(limits: Limits) -> Limits:
    nodes = limits.nodes * ENVELOPE_FACTOR
    size = limits.reply_bytes * ENVELOPE_FACTOR
    return Limits(reply_bytes=size, depth=MAX_JSON_DEPTH, nodes=nodes, calls=limits.calls)


def _finite(value: JSON) -> JSON:
    """Return a value with null for each number that is not finite.

    The value is no deeper than the reader allowed.
    """
    match value:
        case dict():
            finite = {name: _finite(member) for name, member in value.items()}
            if "arguments" in finite and finite["arguments"] != value["arguments"]:
                # of a call: null would be another value
                finite["arguments"] = json.dumps(value["arguments"])

            return finite
        case list():
            return [_finite(member) for member in value]
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value


def as_json(value: Any) -> JSON:
    """Return an SDK object or a mapping as plain JSON.

    Raise TypeError for anything else, as json.dumps does.
    """
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("JSON", dump(mode="json", exclude_unset=True, warnings=False))
    if isinstance(value, Mapping):
        return {str(name): as_json(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(member) for member in cast("Sequence[object]", value)]
    if value is None or isinstance(value, str | int | float):
        return value

    raise TypeError(f"{type(value).__name__} is not JSON")
