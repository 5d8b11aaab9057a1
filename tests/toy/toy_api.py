"""A toy API, in one file: no member, id, ending or framing of it is one of chat completions.

A request is ``{"engine", "talk", "gadgets", "must", "several", "blueprint", "ration", "drip"}``, a
reply ``{"turn", "halt", "meter"}``. Errors come with status 200, as ``{"mishap"}``. A stream is a
series of ``<length>:<JSON>``, which ``0:`` ends. The ids of calls are numbers. A turn answers all
calls of the one before.

``TOY`` is its wire, ``TOY_WRITER`` the server of the test kit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from strictreply import Code, ContractError, Invalid, Issue, Limits, Tool
from strictreply.core import (
    CHOICE,
    FORMAT,
    PARALLEL,
    Answered,
    AnswerFormat,
    Assembly,
    CallPiece,
    Choice,
    ChunkRead,
    Draft,
    DraftCall,
    Event,
    NeedsNothing,
    Opened,
    Replay,
    Request,
    Storing,
    UsageNames,
    UserInput,
    Wire,
)
from strictreply.testing import ModelReply, RequestTurn, ServedError, Writer

_READ = ("engine", "talk", "gadgets", "must", "several", "blueprint", "ration", "drip")
_ENDINGS = {
    "spent": Code.REPLY_TRUNCATED,
    "shut": Code.REPLY_CONTENT_FILTER,
    "declined": Code.REPLY_REFUSAL,
}
_GRADES = {"busy": 429, "down": 503}


def _read(keywords: dict[str, Any]) -> Request:
    talk = keywords.get("talk")
    if isinstance(talk, str):
        talk = [{"by": "human", "says": talk}]
    if not isinstance(talk, list):
        raise ContractError("talk is required: a text, or a list of turns")

    blueprint = keywords.get("blueprint")
    ration = keywords.get("ration")
    is_type = isinstance(blueprint, type)
    return Request(
        source={name: value for name, value in keywords.items() if name not in _READ},
        model=keywords.get("engine"),
        conversation=list(talk),
        given_tools=keywords.get("gadgets"),
        choice=_choice(keywords.get("must")),
        parallel=keywords.get("several"),
        format=blueprint
        if is_type or blueprint is None
        else AnswerFormat("json_schema", blueprint),
        limits={} if ration is None else {"ration": ration},
        is_stream=bool(keywords.get("drip")),
        wants_usage=False,
    )


def _choice(must: object) -> Choice | None:
    if must is None:
        return None
    if isinstance(must, Mapping):
        return Choice(tool=str(must["label"]))

    return Choice({"some": "required", "never": "none"}.get(str(must), "auto"))


def _undemanding(keywords: dict[str, Any]) -> dict[str, Any]:
    choice = _choice(keywords.get("must"))
    if choice is None or choice == Choice("none"):
        return keywords
    return {name: value for name, value in keywords.items() if name != "must"}


def _written(request: Request) -> dict[str, Any]:
    talk = list(request.turns)
    if request.instructions:
        talk.insert(0, {"by": "rules", "says": request.instructions})

    body = {**request.source, "engine": request.model, "talk": talk, **request.limits}
    if request.tools:
        body["gadgets"] = [_gadget(tool.definition["function"]) for tool in request.tools]
    if request.choice is not None:
        chosen = {"required": "some", "none": "never"}.get(request.choice.mode, "may")
        body["must"] = {"label": request.choice.tool} if request.choice.tool else chosen
    if request.parallel is not None:
        body["several"] = request.parallel
    if isinstance(request.format, AnswerFormat):
        body["blueprint"] = request.format.schema
    if request.is_stream:
        body["drip"] = True

    return body | request.keywords


def _gadget(function: Mapping[str, Any]) -> dict[str, Any]:
    return {"label": function["name"], "shape": function["parameters"]}


def _says(turn: Any) -> list[Any]:
    says = turn.get("says") if isinstance(turn, dict) else None
    return says if isinstance(says, list) else []


def _draft_of(turn: dict[str, Any]) -> Draft:
    calls: list[DraftCall] = []
    for part in _says(turn):
        if isinstance(part, dict) and "gadget" in part:
            arguments = part.get("with")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            calls.append(DraftCall(part["gadget"], text, f"{part.get('ticket')}", source=part))

    words = [part["words"] for part in _says(turn) if isinstance(part, dict) and "words" in part]
    odd = next((one for one in words if not isinstance(one, str)), None)
    said = "".join(words) if words and odd is None else None
    return Draft(said, tuple(calls), other=odd, source=turn)


def _turn_of(draft: Draft) -> dict[str, Any]:
    kept = draft.source if isinstance(draft.source, dict) else {}
    words = [{"words": draft.text}] if draft.text else []
    return {**kept, "by": "engine", "says": [*words, *map(_use, draft.calls)]}


def _use(call: DraftCall) -> dict[str, Any]:
    kept = call.source if isinstance(call.source, dict) else {}
    ticket = int(call.id) if str(call.id).isdecimal() else call.id  # type: ignore[call-overload]
    try:
        given = json.loads(str(call.arguments or "{}"))
    except ValueError:
        given = call.arguments

    return {**kept, "gadget": call.name, "ticket": ticket, "with": given}


def _mishap(response: object) -> Any:
    held = response if isinstance(response, dict) else {}
    error = held.get("error")
    mishap = held.get("mishap")
    if error is not None or not isinstance(mishap, dict):
        return error

    return {"message": mishap.get("why"), "code": _GRADES.get(str(mishap.get("sort")), 400)}


def _opened(response: object, _needs_nothing: NeedsNothing | None) -> Opened | Invalid:
    if _mishap(response):
        return Invalid((Issue.of(Code.ENVELOPE_ERROR, "/mishap"),))

    held = response if isinstance(response, dict) else {}
    turn = held.get("turn")
    ending = _ENDINGS.get(str(held.get("halt")))
    if ending is not None:
        return Invalid((Issue.of(ending, "/halt"),))
    if not isinstance(turn, dict):
        return Invalid((Issue.of(Code.ENVELOPE_MALFORMED, "/turn", expected="a turn"),))

    return Opened(_draft_of(turn), promised=held.get("halt") == "used")


def _draft_in(response: Any) -> Draft | None:
    turn = response.get("turn") if isinstance(response, dict) else None
    return _draft_of(turn) if isinstance(turn, dict) else None


def _with_draft(response: dict[str, Any], draft: Draft) -> dict[str, Any]:
    return {**response, "turn": _turn_of(draft), "halt": "used" if draft.calls else "told"}


def _turns(answered: Answered) -> list[Mapping[str, Any]]:
    turns: list[Mapping[str, Any]] = [_turn_of(answered.draft)]
    turns += _results(answered.draft.calls, answered.results)
    if answered.words is not None:
        turns.append({"by": "human", "says": answered.words})

    return turns


def _results(calls: Iterable[DraftCall], results: Iterable[str]) -> list[Mapping[str, Any]]:
    outcomes = [
        {"outcome": result, "ticket": _use(call)["ticket"]}
        for call, result in zip(calls, results, strict=True)
    ]
    return [{"by": "gadget", "says": outcomes}] if outcomes else []


def _quoted(draft: Draft) -> str:
    calls = [json.dumps([call.name, call.arguments]) for call in draft.calls]
    return "\n".join([draft.text or "", *calls]).strip()


def _is_plain(draft: Draft) -> bool:
    """Return whether no call has a seal."""
    return not any("seal" in _use(call) for call in draft.calls)


def _ids(turns: Iterable[Any]) -> list[str]:
    parts = [part for turn in turns for part in _says(turn)]
    return [f"{part['ticket']}" for part in parts if isinstance(part, dict) and "gadget" in part]


class ToyReader:
    """Finds the events in the bytes of a stream."""

    idle_lines = 0

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that are complete with these bytes."""
        self._rest += piece
        while True:
            size, colon, rest = self._rest.partition(b":")
            if not colon or not size.isdigit() or len(rest) < int(size):
                return

            self._rest = rest[int(size) :]
            yield Event("", rest[: int(size)], size + b":" + rest[: int(size)])

    def end(self) -> Iterator[Event]:
        """Yield nothing: an event that is not whole is none."""
        yield from ()

    last = end


def _read_event(event: Event, _limits: Limits) -> ChunkRead:
    if not event.data:
        return ChunkRead(None, event.raw, is_end=True)

    plain = json.loads(event.data)
    error = _mishap(plain)
    return ChunkRead(plain if error is None else {"error": error}, event.raw)


def event_bytes(event: Any) -> bytes:
    """Write one event of a stream."""
    data = json.dumps(event).encode()
    return f"{len(data)}:".encode() + data


class ToyAssembly(Assembly):
    """Puts the events of one stream together."""

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        super().__init__(names, strict=strict)
        self._words = ""
        self._uses: list[dict[str, Any]] = []
        self._end: dict[str, Any] = {}
        self._text = ""
        self._pieces: tuple[CallPiece, ...] = ()

    @property
    def text(self) -> str:
        """The words that the last event added."""
        return self._text

    @property
    def pieces(self) -> Iterator[CallPiece]:
        """The pieces of calls that the last event added."""
        return iter(self._pieces)

    def add(self, chunk: Any) -> None:
        """Take one event."""
        self._text = ""
        self._pieces = ()
        chunk = chunk if isinstance(chunk, dict) else {}
        self.is_text_alone = "words" in chunk
        if "words" in chunk and not isinstance(chunk["words"], str):
            self.refuse(Code.REPLY_CONTENT, "/words")
        elif "words" in chunk:
            self._text = chunk["words"]
            self._words += self._text
            self.size += len(self._text)
        elif "gadget" in chunk:
            self._uses.append({"gadget": chunk["gadget"], "ticket": chunk["ticket"], "with": ""})
            name = chunk["gadget"] if isinstance(chunk["gadget"], str) else ""
            self._pieces = (CallPiece(len(self._uses) - 1, name, ""),)
        elif "with" in chunk:
            self._uses[-1]["with"] += chunk["with"]
            self._pieces = (CallPiece(len(self._uses) - 1, "", chunk["with"]),)
        elif "halt" in chunk:
            self._end = chunk
            self.is_done = True
        else:
            self.refuse(Code.ENVELOPE_ERROR, "/mishap")
            self._end = chunk

    def end(self, *, is_told: bool = False) -> None:
        """Take the end of the stream."""
        if not self.is_done:
            self.refuse(Code.REPLY_BROKEN_OFF, "/halt")

    def response(self, *, is_whole: bool = True) -> dict[str, Any]:
        """Return the response that the events make."""
        words = [{"words": self._words}] if self._words else []
        return {"turn": {"by": "engine", "says": [*words, *self._uses]}, **self._end}

    def came(self) -> dict[str, Any] | None:
        """Return what has come."""
        return self.response() if self._words or self._uses else None


class ToySent:
    """What of a reply was passed on."""

    def __init__(self, _wants_usage: bool) -> None:
        self.text = ""

    def begin(self) -> None:
        """Begin with another stream."""

    def add(self, event: Any) -> None:
        """Take an event that is passed on."""
        self.text += event.get("words", "")

    def hold(self, event: Any) -> None:
        """Take an event that is not passed on."""

    def told_id(self, response: Any) -> None:
        """Return nothing: responses have no ids."""

    def rest(self, response: dict[str, Any], came: object) -> Iterator[dict[str, Any]]:
        """Yield the events left of an accepted response."""
        draft = _draft_of(response["turn"])
        rest = (draft.text or "").removeprefix(self.text)
        if rest:
            yield {"words": rest}
        for call in draft.calls:
            use = _use(call)
            yield {"gadget": use["gadget"], "ticket": use["ticket"]}
            yield {"with": json.dumps(use["with"])}

        yield {name: value for name, value in response.items() if name != "turn"}


def _recognises(value: object) -> bool:
    return isinstance(value, dict) and ("turn" in value or "mishap" in value)


TOY = Wire(
    name="toy",
    path="talks",
    usage=UsageNames("in", "out", "all", "meter"),
    conversation="talk",
    limits=lambda body: [body["ration"]] if "ration" in body else [],
    additions={CHOICE: ("must",), PARALLEL: ("several",), FORMAT: ("blueprint",)},
    read=_read,
    written=_written,
    undemanding=_undemanding,
    recognises=_recognises,
    is_whole=lambda source: isinstance(source, Mapping),
    opened=_opened,
    draft_in=_draft_in,
    with_draft=_with_draft,
    turn=lambda draft, _response: _turn_of(draft),
    counted=_turn_of,
    replay=Replay(
        keyword="talk",
        user=lambda text: {"by": "human", "says": text},
        system=lambda text: {"by": "rules", "says": text},
        heard=lambda turn: UserInput(str(turn.get("says"))),
        written=_turn_of,
        read=lambda turn: _draft_of(dict(turn)),
        turns=_turns,
        results=_results,
        quoted=_quoted,
        is_plain=_is_plain,
        has_sealed_calls=lambda _draft: False,
        is_bound=lambda _draft: False,
        are_bound=lambda _turns: False,
        with_thoughts=lambda draft, _first: draft,
        ids=_ids,
    ),
    reasons=lambda response: [str(response.get("halt"))] if isinstance(response, dict) else [],
    reader=ToyReader,
    read_event=_read_event,
    assembly=ToyAssembly,
    sent=ToySent,
    event_bytes=event_bytes,
    end_bytes=b"0:",
    storing=Storing(
        demands=lambda _reply, _tools, _answer: (),
        has_reply=lambda _plain, _is_read: True,
        response_in=lambda _event: None,
        emptied=lambda _plain: None,
    ),
    reply_at="/turn",
    error_in=_mishap,
)
"""The wire of the toy."""


_ROLES = {"rules": "system", "human": "user", "engine": "assistant"}
_DRIPS = {"Content-Type": "application/x-drip"}
_HALTS = {code: word for word, code in _ENDINGS.items()}
_SORTS = {429: "busy", 503: "down"}


class ToyWriter(Writer):
    """The server of the toy, as the test kit plays it."""

    stream_headers = _DRIPS

    def request(self, body: dict[str, Any]) -> Request:
        """Read a request, its gadgets as tools."""
        gadgets: list[Any] = body.get("gadgets") or []
        tools = [Tool.from_json_schema(one["label"], one["shape"]) for one in gadgets]
        return replace(super().request(body), given_tools=tools)

    def turns(self, request: Request) -> Iterator[RequestTurn]:
        """Return the conversation; a turn of the gadgets holds a result for each."""
        for turn in request.turns:
            held: Any = turn
            if held["by"] == "gadget":
                for part in held["says"]:
                    yield RequestTurn("tool", part["outcome"], call_id=f"call_{part['ticket']}")
            elif held["by"] == "engine":
                draft = _draft_of(held)
                calls = tuple(replace(call, id=f"call_{call.id}") for call in draft.calls)
                yield RequestTurn("assistant", draft.text, calls)
            else:
                yield RequestTurn(_ROLES[held["by"]], held["says"])

    def response(self, reply: ModelReply, body: dict[str, Any]) -> dict[str, Any]:
        """Write a reply."""
        draft = reply.draft
        ending = Code.REPLY_REFUSAL if draft.refusal else reply.ending
        halt: str | None = "used" if reply.promised else "told"
        if ending is not None:
            halt = _HALTS.get(ending)
        if halt is None:
            return self.error(ServedError(500, "the engine broke off"))[1]

        said = draft.text if draft.other is None else draft.other
        words = [] if said is None else [{"words": said}]
        given, made = reply.usage or (0, 0)
        return {
            "turn": {"by": "engine", "says": [*words, *map(_written_use, draft.calls)]},
            "halt": halt,
            "meter": {"in": given, "out": made},
        }

    def events(self, response: Any, body: dict[str, Any]) -> Iterator[Any]:
        """Take a response apart: a character an event, of arguments three."""
        if not isinstance(response, dict) or "turn" not in response:
            yield response
            return

        for part in response["turn"]["says"]:
            if isinstance(part.get("words"), str):
                yield from ({"words": character} for character in part["words"])
            elif "words" in part:
                yield part
            else:
                yield {"gadget": part["gadget"], "ticket": part["ticket"]}
                given = part["with"]
                text = given if isinstance(given, str) else json.dumps(given)
                yield from ({"with": text[at : at + 3]} for at in range(0, len(text), 3))

        yield {"halt": response["halt"], "meter": response["meter"]}

    def error(self, error: ServedError) -> tuple[int, dict[str, Any]]:
        """Write an error, which comes as any other response."""
        sort = _SORTS.get(error.status, "down" if error.status >= 500 else "wrong")
        return 200, {"mishap": {"why": error.message, "sort": sort}}


def _written_use(call: DraftCall) -> dict[str, Any]:
    """Write a call: arguments that are not the JSON of an object stand there as their text."""
    ticket = call.id
    if isinstance(ticket, str) and ticket.removeprefix("call_").isdecimal():
        ticket = int(ticket.removeprefix("call_"))

    given = call.arguments
    try:
        read = json.loads(str(given), parse_constant=_refused)
    except (ValueError, RecursionError):
        read = None

    if isinstance(read, dict) and json.dumps(read, ensure_ascii=False) == given:
        given = read

    return {"gadget": call.name, "ticket": ticket, "with": given}


def _refused(word: str) -> None:
    raise ValueError(word)


TOY_WRITER = ToyWriter(TOY)
"""The server of the toy, to register with the test kit."""
