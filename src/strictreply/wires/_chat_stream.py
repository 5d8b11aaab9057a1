"""Assembles the chunks of a streamed chat completion.

The rules, in the order of a stream:

- An *event* without choices is not part of the reply. A stream of only such events has no reply.
- Several *choices* with one index in a chunk are read like choices in several chunks.
- A *choice* without a delta adds nothing, unless it has a whole message: the whole reply, or a copy
  of what was received.
- Null and empty values add nothing, and neither does a repeated role.
- A content is texts, lists of texts and thoughts, or a single object.
- :mod:`~strictreply.wires._chat_calls` assembles calls, :mod:`~strictreply.wires._chat_content`
  texts and thoughts.
- A *finish reason* completes the reply, even without ``[DONE]``. After it, usage, blank pieces and
  repetitions add nothing, and another call counts. If each chunk has a finish reason, only
  ``[DONE]`` completes the reply.

Ambiguous streams are rejected, such as text after the end. Of several finish reasons the worst
counts. Everything that the API itself does not send is a row of
:data:`~strictreply.wires._stream_dialects.STREAM_DIALECTS`, which strict reading rejects.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from strictreply.values._issues import Code, Issue, pointer, quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._chat_calls import CallDrafts, Reads, label_in
from strictreply.wires._chat_chunks import ContentParts
from strictreply.wires._chat_content import Content, Members, keep_last
from strictreply.wires._chat_heads import CHUNK, COMPLETION, head_in, headed, is_headed, made_head
from strictreply.wires._dialects import is_blank, text_in, thoughts_in
from strictreply.wires._endings import WORST_FIRST, reason_code, word_of
from strictreply.wires._members import peek
from strictreply.wires._wire import PROMISING, Assembly

BROKEN_OFF = "error"
"""The finish reason of a stream that ended without one."""

_SAID = ("content", "tool_calls", "function_call", "refusal")
_NO_ANSWER = ("tool_calls", "function_call", "refusal")
_TEXTS = ("content", "refusal")

# members that have their own methods
_OF_A_CHOICE = frozenset({"index", "delta", "message", "finish_reason", "logprobs"})
_OF_A_DELTA = frozenset({"role", "content", "refusal", "tool_calls"})
_OF_A_MESSAGE = frozenset({"role", *_SAID})


class ChatAssembly(Assembly):
    """The chunks of one stream so far, assembled."""

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        super().__init__(names, strict=strict)
        self._around: JSONObject = {}
        self._last_event: JSONObject = {}
        self._made: JSONObject | None = None
        self._choices: dict[int, _Choice] = {}

    def add(self, chunk: JSON) -> None:
        """Add one chunk."""
        self.passed = None
        self.is_ignored = False
        self.is_piece = self._add_piece(chunk)
        if not self.is_piece:
            self._add_chunk(chunk)

    def end(self, *, is_told: bool = False) -> None:
        """End the stream; without ``[DONE]``, a finish reason shows that it is complete."""
        if is_told:
            self.is_done = True
            return

        first = self._choices.get(0)
        is_whole = first is not None and first.reason and not (first.is_open or first.goes_on)
        if is_whole and not self.is_done:
            self.is_done = self.reads("done_missing")

    def _add_piece(self, chunk: JSON) -> bool:
        """Add a chunk that only continues a text; return False for any other chunk.

        It runs once for each token of a reply, so it compares exact types, which is fastest.
        """
        if type(chunk) is not dict or "error" in chunk:
            return False

        parts: Any = chunk.get("choices")
        if type(parts) is not list or len(parts) != 1:
            return False
        if not is_headed(chunk, CHUNK):
            return False

        part = parts[0]
        first = self._choices.get(0)
        if first is None or first.reason is not None:
            return False
        if type(part) is not dict or part.get("index") != 0 or type(part["index"]) is not int:
            return False
        if part.get("finish_reason") is not None or part.get("logprobs") is not None:
            return False

        delta = part.get("delta")
        if type(delta) is not dict or "message" in part:
            return False

        size = first.add_piece(delta)
        if size:
            self.delta = delta
            self.is_text_alone = "content" in delta
            self.size += size

        return size > 0

    def _add_chunk(self, chunk: JSON) -> None:
        """Add any chunk; ``fault`` reports what is wrong with it."""
        self.delta = {}
        self.is_text_alone = False
        if not isinstance(chunk, dict):
            expected = "an object as chunk"
            self.refuse(Code.ENVELOPE_MALFORMED, "", expected=expected, found=quote(chunk))
            return

        parts: Any = chunk.get("choices")
        self.is_over = bool(chunk.get("error"))
        if not isinstance(parts, list):
            self._add_event(chunk)
            return

        told = {} if is_headed(chunk, CHUNK) else head_in(self._around)
        keep_last(self._around, chunk)
        if told:  # a wrong value in its place is not such a member
            self._around |= told | head_in(chunk)

        is_behind_end = self.reason is not None
        came: set[int] = set()
        for part in parts:
            index = self._choice_index(part)
            if index is None or (index in came and not self.reads("choice_repeated")):
                expected = "choices with different indexes"
                found = quote(part)
                self.refuse(Code.ENVELOPE_MALFORMED, "/choices", expected=expected, found=found)
                return

            came.add(index)
            self._add_choice(index, part)

        # members around the reply, such as a filter's results, are passed on
        if not parts:
            self.is_text_alone = not is_behind_end and not chunk.get("usage")
        elif len(came) < len(parts):
            self.is_text_alone = False
            self.passed = None
        elif self.passed is not None:  # until here it is only the choice
            self.passed = chunk | {"choices": [self.passed]}

        says_something = bool(parts or chunk.get("usage"))
        if says_something and not is_headed(chunk, CHUNK) and self.reads("head_missing"):
            self.passed = headed(self.passed or chunk, CHUNK, self._head)

    @property
    def _head(self) -> JSONObject:
        """Return the head for chunks without one: that of other chunks, else a generated one."""
        if self._made is None:
            self._made = made_head(self.model)

        return self._made | head_in(self._around)

    def _add_event(self, event: JSONObject) -> None:
        """Add an event without choices: an error, a usage, or something outside of the reply."""
        self._last_event = event
        if event.get("object") == "error" and not self.is_over:  # vLLM's older form
            self._around["error"] = event
            self.is_over = True
        elif self.is_over:
            keep_last(self._around, event)
        elif is_blank(event.get("choices")) and self.reads("event_without_choices"):
            keep_last(self._around, {"usage": event.get("usage")})
            self.is_ignored = True
        else:
            self.refuse(Code.ENVELOPE_CHOICES, "/choices", found=quote(event.get("choices")))

    def _choice_index(self, part: object) -> int | None:
        """Return the index of a choice, 0 if it has none, None if it cannot be read."""
        if not isinstance(part, dict):
            return None
        if "index" not in part:
            return 0

        index = 0 if part["index"] is None else label_in(part)
        if index is None:
            return None
        if not _is_place(part["index"], index) and not self.reads("choice_index"):
            return None

        return index

    def _add_choice(self, index: int, part: JSONObject) -> None:
        is_another = index not in self._choices and bool(self._choices)
        if is_another and is_blank(part | {"index": None}) and self.reads("choice_index"):
            return

        if index not in self._choices:
            self._choices[index] = _Choice(self.reads, CallDrafts(self.reads, self.names))

        choice = self._choices[index]
        fault = choice.add(part)
        if fault is not None:
            self.fault = self.fault or fault
            self.is_over = True
        elif index == 0:
            self.delta = _joined(self.delta, choice.delta)
            self.size += choice.size
            self.is_text_alone = choice.is_text_alone
            self.passed = choice.passed
            if not _is_place(part.get("index"), index):
                self.passed = (self.passed or part) | {"index": index}

    @property
    def has_thoughts(self) -> bool:
        """Whether thoughts were received that may be signed."""
        choice = self._choices.get(0)
        return choice is not None and bool(choice.beside.has_thoughts or choice.content.parts)

    @property
    def reason(self) -> JSON:
        """The finish reason; None if there is none yet."""
        return self._choices[0].reason if 0 in self._choices else None

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the completion that the chunks make up.

        Without an end, or if not ``is_whole``, it is a completion that broke off.
        """
        sound = is_whole and self.is_done
        choices: list[JSON] = [
            self._choices[index].whole(index, sound=sound) for index in sorted(self._choices)
        ]
        # without any choice, the last event is all there is
        shown = self._around if choices else self._last_event | self._around
        around = {name: value for name, value in shown.items() if name != "choices"}
        if self._made is not None:
            around = headed(around, COMPLETION, self._head)

        return {**around, "object": COMPLETION, "choices": choices}

    def came(self) -> JSONObject | None:
        """Return the completion so far."""
        return self.response() if self._choices else None


@dataclass(slots=True)
class _Choice:
    """One choice so far.

    ``delta``, ``size``, ``is_text_alone`` and ``passed`` are about its last piece, as in an
    ``Assembly``.
    """

    reads: Reads
    """Records the deviations that are needed, and returns whether they may be accepted."""
    calls: CallDrafts
    """Its calls."""
    content: Content = field(default_factory=Content)
    """Its content."""
    around: JSONObject = field(default_factory=dict[str, JSON])
    """The members around its message."""
    role: JSON = None
    """The role; None if not yet received."""
    beside: Members = field(default_factory=Members)
    """The other members of its message."""
    logprobs: Members = field(default_factory=Members)
    """The probabilities of its tokens."""
    mirrored: int = 0
    """How much of it came in deltas together with a message that says the same."""
    reason: JSON = None
    """The finish reason; None if there is none yet."""
    is_open: bool = False
    """Whether a call followed its finish reason, without a finish reason after it."""
    ends_each: bool = False
    """Whether every piece with content so far had a finish reason."""
    goes_on: bool = False
    """Whether such pieces followed the first, so that a finish reason ends nothing."""
    delta: JSONObject = field(default_factory=dict[str, JSON])
    """What its last piece added, as a delta of the message."""
    size: int = 0
    """Characters of the last piece's texts."""
    is_text_alone: bool = False
    """Whether its last piece added only text of an answer."""
    passed: JSONObject | None = None
    """The choice of its last piece in the form of the API; None if it already has that form."""

    def add_piece(self, delta: JSONObject) -> int:
        """Add a delta that is another piece of the content or of a call's arguments.

        Return its size, 0 for anything else. An empty text also returns 0; it is then added again,
        which has no effect.
        """
        if len(delta) != 1:
            return 0

        text = delta.get("content")
        if type(text) is str and self.content.other is None:
            self.content.add(text)
            return len(text)

        calls: Any = delta.get("tool_calls")
        if type(calls) is not list or len(calls) != 1:
            return 0

        return self.calls.add_piece(calls[0])

    def add(self, part: JSONObject) -> Issue | None:
        """Add a choice of a chunk; return what is wrong with it, or None."""
        self._begin(part)
        delta: Any = part.get("delta")
        message: Any = part.get("message")
        if delta is None and self.reads("delta_missing"):
            if isinstance(message, dict):
                return self._add_message(message, part) or self._add_reason(part)

            delta = {}
            self.passed = (self.passed or part) | {"delta": {}}

        if not isinstance(delta, dict):
            expected = "an object as delta"
            found = quote(delta)
            return Issue.of(Code.ENVELOPE_MALFORMED, "/choices/0", expected=expected, found=found)

        stands_alone = is_blank(delta) and isinstance(message, dict) and not _is_empty(message)
        if stands_alone and self.reads("message_repeated"):
            return self._add_message(message, part) or self._add_reason(part)

        # members next to the finish reason belong to the reply, and are not after it
        behind_end = self.reason is not None and not self._takes_on(part, delta)
        is_mirrored = isinstance(message, dict) and self.mirrored == self._came_size()
        fault = self._add_reason(part) or self._add_delta(delta, behind_end=behind_end)
        # a finish reason closes a call in the same choice
        if part.get("finish_reason"):
            self.is_open = False

        is_beside = isinstance(message, dict) and not _is_empty(message)
        if is_beside and is_mirrored and _is_piece_of(message, delta):
            self.mirrored = self._came_size()
        elif is_beside and fault is None:
            return self._add_message(message, part)

        has_more = any(delta.get(name) or peek(message, name) for name in _NO_ANSWER)
        has_object = isinstance(delta.get("content"), dict)
        self.is_text_alone = self.reason is None and not has_more and not has_object
        if self.is_text_alone:
            self._pass_on(part, delta)

        return fault

    def _begin(self, part: JSONObject) -> None:
        """Forget the last piece, and keep the members around the next one."""
        self.delta = {}
        self.size = 0
        self.is_text_alone = False
        self.passed = None
        keep_last(self.around, {name: part[name] for name in part if name not in _OF_A_CHOICE})
        logprobs: Any = part.get("logprobs")
        if _are_logprobs(logprobs):
            for name, value in (logprobs or {}).items():
                self.logprobs.add(name, value)
        else:
            self.passed = part | {"logprobs": None}  # programs count the entries

    def _pass_on(self, part: JSONObject, delta: JSONObject) -> None:
        """Set the choice in the form of the API, if it has another form."""
        if _is_no_reason(part.get("finish_reason")):
            self.passed = (self.passed or part) | {"finish_reason": None}

        content = delta.get("content")
        if isinstance(content, list):
            text = self.delta.get("content")
            shown = ContentParts(content) if thoughts_in(content) else text
            self.passed = (self.passed or part) | {"delta": delta | {"content": shown}}

    def _add_reason(self, part: JSONObject) -> Issue | None:
        """Add a finish reason.

        Of several the worst counts; of good ones, the one that announces a call.
        """
        reason: Any = part.get("finish_reason")
        if reason is None or (_is_no_reason(reason) and self.reads("finish_empty")):
            return None

        self.is_open = False
        if self.reason is None:
            self.reason = reason
            self.ends_each = not self._has_said()
            return None

        if not self.goes_on and not self.reads("finish_repeated"):
            expected = "nothing after the finish_reason"
            return Issue.of(Code.ENVELOPE_MALFORMED, "/choices/0", expected=expected)

        self.reason = min((self.reason, reason), key=_rank)
        return None

    def _has_said(self) -> bool:
        """Return whether anything of the reply except a role was received."""
        return bool(self._came_size()) or not is_blank(self.beside.whole)

    def _takes_on(self, part: JSONObject, delta: JSONObject) -> bool:
        """Return whether a piece after a finish reason belongs to a reply that ends in each chunk.

        Text that starts with everything received so far may be a copy.
        """
        if is_blank(delta | {"role": None}):
            return False

        text = text_in(delta.get("content")) or ""
        size = self.content.text.tell()
        is_again = 0 < size <= len(text) and text.startswith(self.content.text.getvalue())
        has_reason = bool(part.get("finish_reason"))
        self.ends_each = self.ends_each and has_reason and not is_again
        self.goes_on = self.goes_on or (self.ends_each and self.reads("finish_each"))
        return self.goes_on and self.ends_each

    def _add_delta(self, delta: JSONObject, *, behind_end: bool) -> Issue | None:
        if behind_end and not is_blank([delta.get(name) for name in _TEXTS]):
            is_white = not delta.get("refusal") and _is_white(delta.get("content"))
            if not is_white or not self.reads("blank_behind_end"):
                expected = "nothing after the finish_reason"
                return Issue.of(Code.ENVELOPE_MALFORMED, "/choices/0", expected=expected)

            delta = delta | {"content": None}

        role = delta.get("role")
        if role and self.role and role != self.role:
            return Issue.of(Code.REPLY_ROLE, "/role", found=quote(role))

        self.role = self.role or role
        for name, value in delta.items():
            is_stub = name == "function_call" and is_blank(value)
            if name in _OF_A_DELTA or is_stub:
                continue

            self.beside.add(name, value)
            if isinstance(value, str):
                self.size += len(value)

        fault = self._add_refusal(delta) or self._add_content(delta.get("content"))
        if fault is not None:
            return fault

        return self._add_calls(delta.get("tool_calls"), behind_end=behind_end)

    def _add_refusal(self, delta: JSONObject) -> Issue | None:
        refusal = delta.get("refusal") or None
        if not isinstance(refusal, str | None):
            return Issue.of(Code.REPLY_CONTENT, "/content", found=quote(refusal))

        if "refusal" in delta:
            self.beside.add("refusal", refusal)
            self.size += len(refusal or "")

        return None

    def _add_content(self, content: Any) -> Issue | None:
        """Add a piece of the content: a text, a list of texts and thoughts, or a whole object."""
        if content is None:
            return None

        is_other = self.content.other is not None
        if (is_other and not is_blank(content)) or isinstance(content, dict):
            return self._add_object(content)

        if isinstance(content, str):
            self.content.add(content)
        elif isinstance(content, list) and text_in(content) is not None:
            self.content.add_parts(content)
            if not self.reads("content_chunks"):
                return Issue.of(Code.REPLY_CONTENT, "/content", found=quote(content))

            content = text_in(content)
        else:
            self.content.other = content
            return Issue.of(Code.REPLY_CONTENT, "/content", found=quote(content))

        self.delta["content"] = content
        self.size += len(content)
        return None

    def _add_object(self, content: object) -> Issue | None:
        """Add an object as the content, if nothing else of it was received."""
        if self.content.says_something() or not isinstance(content, dict):
            return Issue.of(Code.REPLY_CONTENT, "/content", found=quote(content))

        self.content.other = content
        self.size += len(json.dumps(content))
        return None

    def _add_calls(self, calls: object, *, behind_end: bool) -> Issue | None:
        if calls is None or calls == []:
            return None

        if not isinstance(calls, list):
            if is_blank(calls) and self.reads("call_empty"):
                return None

            expected = "in an array"
            found = quote(calls)
            return Issue.of(Code.CALL_MALFORMED, "/tool_calls", expected=expected, found=found)

        pieces: list[JSON] = []
        for call in calls:
            if call is None and self.reads("call_empty"):
                continue

            piece = self.calls.add(call, behind_end=behind_end)
            if piece is None and behind_end:
                expected = "nothing after the finish_reason"
                return Issue.of(Code.ENVELOPE_MALFORMED, "/choices/0", expected=expected)
            if piece is None and self.calls.is_unplaced:
                # a retry would not change how the server writes
                what = "a piece does not say to which call it belongs"
                at = "/choices/0/tool_calls"
                return Issue.of(Code.ENVELOPE_AMBIGUOUS, at, what=what, found=quote(call))
            if piece is None:
                label = label_in(call) if isinstance(call, dict) else None
                if label is None:
                    label = len(self.calls.drafts)

                at = pointer("/tool_calls", label)
                expected = "sent in pieces with the same index"
                return Issue.of(Code.CALL_MALFORMED, at, expected=expected, found=quote(call))

            pieces.append(piece)
            # a copy or an empty call adds no function
            if behind_end and "function" in piece:
                self.is_open = True

            arguments = peek(piece.get("function"), "arguments")
            self.size += len(str(arguments or ""))

        self.delta["tool_calls"] = pieces
        return None

    def _came_size(self) -> int:
        """Return how much of the text and the calls was received."""
        calls = sum(1 + draft.text.tell() for draft in self.calls.drafts)
        return self.content.text.tell() + len(self.content.parts) + calls

    def _add_message(self, message: JSONObject, part: JSONObject) -> Issue | None:
        """Add a whole message in place of a delta: the reply, or a copy of what was received.

        Members that are not judged, and were in no delta, are added to the reply.
        """
        has_come = not self.content.is_empty or self.calls.drafts or self._is_refused()
        is_read = part.get("delta") is None or self.reads("message_repeated")
        if not has_come and is_read:
            return self._add_delta(message, behind_end=False)

        if not self._is_told_by(message):
            # a server that sends such a message would do so again
            what = "a message contradicts the deltas before it"
            at = "/choices/0/message"
            return Issue.of(Code.ENVELOPE_AMBIGUOUS, at, what=what, found=quote(message))
        if not self.reads("message_repeated"):
            expected = "deltas, without a message in addition"
            return Issue.of(Code.ENVELOPE_MALFORMED, "/choices/0", expected=expected)

        others = {name: message[name] for name in message if name not in _OF_A_MESSAGE}
        missing = self.beside.add_missing(others) | self._add_thoughts(message.get("content"))
        self.calls.add_missing(message.get("tool_calls"))
        if missing:
            shown = self.passed or part
            delta: Any = shown.get("delta") or {}
            self.passed = shown | {"delta": delta | missing}

        return None

    def _add_thoughts(self, content: Any) -> JSONObject:
        """Add the thoughts from a content whose texts came in deltas without thoughts.

        Return them as a member of a delta.
        """
        thoughts = thoughts_in(content)
        if not thoughts or self.content.parts:
            return {}

        said = self.content.text.getvalue()
        self.content = Content(has_come=True)
        self.content.add_parts(content if text_in(content) else [*thoughts, *_parts_of(said)])
        return {"content": ContentParts(thoughts)}

    def _is_refused(self) -> bool:
        return not is_blank([self.beside.whole.get(name) for name in ("refusal", "function_call")])

    def _is_told_by(self, message: JSONObject) -> bool:
        """Return whether a message says the same as its deltas; blank members do not count."""
        if message.get("role") and message["role"] != (self.role or "assistant"):
            return False

        beside = self.beside.whole
        for name in ("refusal", "function_call"):
            if not is_blank(message.get(name)) and message[name] != beside.get(name):
                return False

        content = message.get("content")
        came = self.content.whole
        text = text_in(content)
        # a gateway that trims a text has not changed it
        is_text = text is not None and text.strip() in ("", (text_in(came) or "").strip())
        if not is_blank(content) and content != came and not is_text:
            return False

        calls = message.get("tool_calls")
        return is_blank(calls) or self.calls.are(calls)

    def whole(self, index: int, *, sound: bool) -> JSONObject:
        """Return the choice in the form of a completion; if it is not ``sound``, it broke off."""
        message: JSONObject = {"role": self.role or "assistant", "content": self.content.whole}
        message |= self.beside.whole
        if self.calls.drafts:
            message["tool_calls"] = self.calls.whole

        return {
            **self.around,
            "logprobs": self.logprobs.whole or None,
            "index": index,
            "message": message,
            "finish_reason": self.reason if sound and self.reason else BROKEN_OFF,
        }


def _joined(before: JSONObject, delta: JSONObject) -> JSONObject:
    """Return what two choices with one index added."""
    if not before:
        return delta

    joined = before | delta
    for name in before.keys() & delta.keys():  # of texts or of calls
        joined[name] = before[name] + delta[name]

    return joined


def _parts_of(text: str) -> list[JSON]:
    return [{"type": "text", "text": text}] if text else []


def _are_logprobs(value: object) -> bool:
    """Return whether a value is null, or contains the probabilities of tokens as lists."""
    if not isinstance(value, dict):
        return value is None

    lists = [value.get(name) for name in ("content", "refusal")]
    return all(isinstance(one, list | None) for one in lists)


def _is_place(index: object, place: int) -> bool:
    """Return whether an index has the API's form for a position."""
    return type(index) is int and index == place


def _is_white(content: JSON) -> bool:
    text = text_in(content)
    return text is not None and not text.strip() and not thoughts_in(content)


def _is_piece_of(message: JSONObject, delta: JSONObject) -> bool:
    """Return whether a message next to a delta contains exactly what the delta does."""
    return all(message.get(name) == delta.get(name) for name in _SAID)


def _is_empty(message: JSONObject) -> bool:
    """Return whether a message has neither a content nor calls nor a refusal."""
    return is_blank([message.get(name) for name in _SAID])


def _is_no_reason(reason: object) -> bool:
    """Return whether a finish reason stands for null: it is blank, or false."""
    return reason is False or (reason is not None and is_blank(reason))


def _rank(reason: object) -> tuple[int, int]:
    """Order finish reasons: the worst first; of good ones, the one that announces a call."""
    code = reason_code(reason)
    if code is not None:
        return WORST_FIRST.index(code), 0

    promises = word_of(str(reason)) in PROMISING
    return len(WORST_FIRST), int(not promises)
