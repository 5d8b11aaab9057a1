"""Compare the assistant turns of recorded exchanges: a wrapped client's with the raw client's.

``python tools/compare_turns.py [ID ...]`` plays the exchanges of ``../shared/traffic`` (chat
completions and Responses) to both clients. A turn is taken in two ways: as the caller of ``create``
gets it, of a stream as the SDK's own accumulator makes it, and as ``exchange`` sends it back in its
transcript. What differs from the raw client's turn needs a row of ``DOCUMENTED``, each of which
names a sentence of docs/client.md. Where the recorded program went on, the turn in its next request
is compared, too, and what differs from the raw client's needs a rule of ``PROGRAMS``. The exit code
is 1 when something has no row and no rule. Without the recordings the program says so.
"""

from __future__ import annotations

import gzip
import inspect
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.resources.chat.completions import Completions
from openai.resources.responses import Responses

import strictreply as sr

_base = import_module("openai._base_client")
http: Any = getattr(_base, "httpx2", None) or _base.httpx

JSONObject: TypeAlias = dict[str, Any]
Turn: TypeAlias = list[JSONObject]

TRAFFIC = Path(__file__).resolve().parents[2] / "shared" / "traffic"
CHAT = "openai-chat"
WIRES = (CHAT, "openai-responses")
POLICY = sr.RetryPolicy(max_retries=0, transport_retries=0)
MARK = {"role": "user", "content": "What now?"}
"""What is sent behind a transcript."""

PLAIN = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "…": "...", "—": "--"})  # noqa: RUF001
CUT = 900  # characters; the recordings keep 1,000 of a longer text
PARSED = ("parsed", "parsed_arguments")
WIDTH = 120
ABSENT = "(absent)"
RESULTS = ("tool", "user", "system", "developer")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded exchange, as its line has it."""

    id: str
    wire: str
    provider: str
    streamed: bool
    status: int
    format: str
    request: JSONObject | None
    response: Any
    next: str | None

    @property
    def is_chat(self) -> bool:
        """Whether it is a chat completion."""
        return self.wire == CHAT

    @property
    def key(self) -> str:
        """The member of the request that holds the conversation."""
        return "messages" if self.is_chat else "input"

    @property
    def is_judged(self) -> bool:
        """Whether a guard takes such a request: one reply is asked for, and came."""
        asked = self.request or {}
        is_one = (asked.get("n") or 1) == 1 and not asked.get("functions")
        return self.status < http.codes.MULTIPLE_CHOICES and is_one and not asked.get("background")


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two turns differ, as a pointer without numbers, and what each has there."""

    at: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        """Show it on one line."""
        return f"{self.at}: {shown(self.ours)} instead of {shown(self.theirs)}"


@dataclass(frozen=True, slots=True)
class Documented:
    """A sentence of the documentation that allows a difference, and where it may be.

    ``rows``: the attempt must have recorded one of these; any attempt where there are none.
    """

    page: str
    sentence: str
    at: str
    rows: tuple[str, ...] = ()

    def allows(self, difference: Difference, lenient: Iterable[str]) -> bool:
        """Return whether the difference is one of this row."""
        is_read = not self.rows or not set(self.rows).isdisjoint(lenient)
        return is_read and re.fullmatch(self.at, difference.at) is not None


DOCUMENTED = (
    Documented("client.md", "no empty `function_call`", "/function_call", ("function_call_empty",)),
    Documented(
        "client.md",
        "An object where JSON text belongs becomes JSON text",
        "/content",
        ("content_object",),
    ),
    Documented("verdicts.md", "`call_type_missing`", "/tool_calls/type", ("call_type_missing",)),
    Documented("verdicts.md", "`call_id_missing`", "/tool_calls/id", ("call_id_missing",)),
    Documented(
        "verdicts.md", "`arguments_empty`", "/tool_calls/function/arguments", ("arguments_empty",)
    ),
    Documented(
        "client.md",
        "only the first message is delivered (`answer_repeated`)",
        "",
        ("answer_repeated",),
    ),
)
"""What may differ between the turns of the two clients."""

STREAMED = (
    *DOCUMENTED,
    Documented("client.md", "Each member beside them", "/role"),
    Documented(
        "client.md",
        "only the first response is delivered (`response_behind_end`)",
        "",
        ("response_behind_end",),
    ),
)
"""The same of streams: of a role in every piece the SDK's accumulator makes one long word."""

SENT_BACK = (
    *DOCUMENTED,
    Documented("responses.md", "Each call is sent back as `completed`", "/status"),
    Documented(
        "responses.md",
        "If a reasoning item is left out, the item after it is sent without its id",
        "/id",
    ),
)
"""The same where ``exchange`` sends the turn back."""

AWAITED = ("apply_patch_call", "shell_call", "local_shell_call", "mcp_approval_request")
"""Calls of the API's own tools that the program answers; ``tool_search_call`` may be one."""


def shown(value: Any) -> str:
    """Write a value on one line, cut when it is long."""
    text = value if value is ABSENT else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def exchanges(folder: Path = TRAFFIC) -> dict[str, Exchange]:
    """Read the recorded exchanges by their ids."""
    found: dict[str, Exchange] = {}
    for wire in WIRES:
        with gzip.open(folder / f"traffic-{wire}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                named = {name: line.get(name) for name in Exchange.__dataclass_fields__}
                found[line["id"]] = Exchange(**named)

    return found


def differences(ours: Any, theirs: Any, at: str = "") -> Iterator[Difference]:
    """Yield each place where two JSON values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in {**ours, **theirs}:
            yield from differences(ours.get(name, ABSENT), theirs.get(name, ABSENT), f"{at}/{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for one, other in zip(ours, theirs, strict=True):
            yield from differences(one, other, at)
    elif type(ours) is not type(theirs) or ours != theirs:
        yield Difference(at, ours, theirs)


def text_of(exchange: Exchange) -> str:
    """Return the recorded body."""
    body = exchange.response
    return body if isinstance(body, str) else json.dumps(body)


def client_over(exchange: Exchange, sent: list[JSONObject] | None = None) -> openai.OpenAI:
    """Make a raw client whose server gives the recorded response; it notes what is sent."""
    kinds = {"sse": "text/event-stream", "json": "application/json"}
    body = (
        exchange.response if isinstance(exchange.response, str) else json.dumps(exchange.response)
    )

    def handle(request: Any) -> Any:
        if sent is not None:
            sent.append(json.loads(request.content))

        headers = {"content-type": kinds.get(exchange.format, "text/plain")}
        return http.Response(exchange.status, headers=headers, content=body.encode())

    transport = http.Client(transport=http.MockTransport(handle))
    return openai.OpenAI(
        api_key="none", base_url="http://model.invalid/v1", max_retries=0, http_client=transport
    )


def keywords(exchange: Exchange) -> JSONObject:
    """Return the request as keywords of ``create``; where none was recorded, one of a user."""
    asked = exchange.request or _invented(exchange)
    method = Completions.create if exchange.is_chat else Responses.create
    known = inspect.signature(method).parameters.keys() - {"self", "extra_body", "timeout"}
    given = {name: value for name, value in asked.items() if name in known}
    others = {name: value for name, value in asked.items() if name not in known}
    return given | ({"extra_body": others} if others else {})


def _invented(exchange: Exchange) -> JSONObject:
    """Make a request for a response that was recorded alone: with a tool for each of its calls."""
    schema = {"type": "object", "additionalProperties": True}
    tools: list[JSONObject] = []
    for name in sorted(set(_names_called(exchange))):
        tool: JSONObject = {"name": name, "parameters": schema}
        flat: JSONObject = {"type": "function", **tool}
        tools.append({"type": "function", "function": tool} if exchange.is_chat else flat)

    asked: JSONObject = {"model": "m", exchange.key: [{"role": "user", "content": "hi"}]}
    asked |= {"tools": tools} if tools else {}
    return asked | ({"stream": True} if exchange.streamed else {})


def _names_called(exchange: Exchange) -> Iterator[str]:
    """Yield the names of the calls in a body."""
    text = text_of(exchange)
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    for line in lines or [text]:
        with suppress(ValueError):
            yield from _names_in(json.loads(line))


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _names_in(one)
    elif isinstance(value, dict):
        called = value if value.get("type") == "function_call" else value.get("function")
        if isinstance(called, dict) and isinstance(called.get("name"), str) and called["name"]:
            yield called["name"]

        for name, one in value.items():
            if name != "tools":
                yield from _names_in(one)


def created(exchange: Exchange, client: Any) -> Turn:
    """Return the turn that the caller of ``create`` gets, as the SDK writes it into a request."""
    given = keywords(exchange)
    resource = client.chat.completions if exchange.is_chat else client.responses
    made = resource.create(**given)
    if given.get("stream"):
        return _streamed(exchange, list(made))
    if exchange.is_chat:
        return [_as_sent(made.choices[0].message)]

    return [_as_sent(item) for item in made.output]


def _as_sent(model: Any) -> JSONObject:
    """Write a message or an item as the SDK does when it stands in a request."""
    left_out: Any = getattr(model, "__api_exclude__", None)
    told = model.model_dump(mode="json", exclude_unset=True, exclude=left_out, warnings=False)
    return dict(_without_parsed(told))


def _without_parsed(value: Any) -> Any:
    """Return JSON without what the SDK's accumulator adds: the parsed form of texts."""
    if isinstance(value, list):
        return [_without_parsed(one) for one in value]
    if not isinstance(value, dict):
        return value

    return {name: _without_parsed(value[name]) for name in value if name not in PARSED}


def _streamed(exchange: Exchange, events: list[Any]) -> Turn:
    """Put a stream together as the SDK's own accumulator does."""
    if exchange.is_chat:
        state: Any = ChatCompletionStreamState()
        for chunk in events:
            state.handle_chunk(chunk)

        return [_as_sent(state.current_completion_snapshot.choices[0].message)]

    ends = ("response.completed", "response.incomplete", "response.failed")
    (last,) = [event.response for event in events if event.type in ends][-1:]
    return [_as_sent(item) for item in last.output]


def sent_back(exchange: Exchange) -> tuple[Turn, tuple[str, ...]]:
    """Return the turn that ``exchange`` sends back in its transcript, and what was read."""
    sent: list[JSONObject] = []
    given = keywords(exchange)
    for name in ("stream", "stream_options", "previous_response_id"):
        given.pop(name, None)

    raw: Any = client_over(exchange, sent)
    api: Any = "chat" if exchange.is_chat else "responses"
    client = sr.wrap(raw, policy=POLICY, parallel=True, api=api)
    ended = client.exchange(**given)
    sent.clear()
    with suppress(sr.StrictReplyError):  # what is sent counts, not what comes
        client.exchange(**given | {exchange.key: [*ended.transcript, MARK]})

    first = given.get(exchange.key)
    number = 1 if isinstance(first, str) else len(first or ())
    return sent[0][exchange.key][number:-1], ended.attempts[-1].lenient


def sendable(exchange: Exchange, turn: Turn) -> Turn:
    """Return what of a turn the API takes back.

    docs/responses.md, "What a correcting request contains", says it.
    """
    asked = exchange.request or {}
    if asked.get("conversation"):
        return []  # the server has it

    answered = [item.get("call_id") for item in turn if str(item.get("type")).endswith("_output")]
    taken: Turn = []
    for item in reversed(turn):
        kind = item.get("type")
        is_awaited = kind in AWAITED or item.get("execution") == "client"
        is_loose = kind == "reasoning" and not taken
        is_forgotten = kind == "reasoning" and asked.get("store") is False
        if is_awaited and item.get("call_id") not in answered:
            continue
        if not is_loose and not (is_forgotten and not item.get("encrypted_content")):
            taken.insert(0, item)

    return taken


@dataclass(slots=True)
class Played:
    """What playing one exchange showed: ``faults`` have no row and no rule, ``found`` have one."""

    turns: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    found: Counter[str] = field(default_factory=Counter[str])


def play(exchange: Exchange, following: Exchange | None = None) -> Played:
    """Play an exchange to both clients, and compare their turns with each other and the next."""
    played = Played()
    with warnings.catch_warnings():
        # contracts of recorded tools warn, and the SDK of replies that its types do not foresee
        warnings.simplefilter("ignore")
        try:
            raw = created(exchange, client_over(exchange))
        except Exception:  # noqa: BLE001 - whatever it raises, there is no turn to compare
            played.turns["of which the raw client makes no turn"] += 1
            return played

        _compare_created(exchange, raw, played)
        if not exchange.streamed:
            _compare_sent_back(exchange, raw, played)

    if following is not None and following.request is not None:
        _compare_next(exchange, following.request, raw, played)

    return played


def _compare_created(exchange: Exchange, raw: Turn, played: Played) -> None:
    attempts: list[sr.Attempt] = []
    guarded = sr.wrap(client_over(exchange), policy=POLICY, on_attempt=attempts.append)
    try:
        ours = created(exchange, guarded)
    except (sr.StrictReplyError, sr.ContractError):
        played.turns["refused"] += 1
        return

    rows = STREAMED if exchange.streamed else DOCUMENTED
    played.turns["as the caller gets it"] += 1
    _note(exchange, "create", (ours, raw), (rows, attempts[-1].lenient), played)


def _compare_sent_back(exchange: Exchange, raw: Turn, played: Played) -> None:
    try:
        ours, lenient = sent_back(exchange)
    except (sr.StrictReplyError, sr.ContractError):
        return  # counted above

    played.turns["as it is sent back"] += 1
    both = (ours, sendable(exchange, raw))
    _note(exchange, "exchange", both, (SENT_BACK, lenient), played)


def _note(
    exchange: Exchange,
    way: str,
    both: tuple[Turn, Turn],
    allowed: tuple[Iterable[Documented], Iterable[str]],
    played: Played,
) -> None:
    rows, lenient = allowed
    for one in differences(*both):
        row = next((row for row in rows if row.allows(one, lenient)), None)
        if row is None:
            played.faults.append(f"{exchange.id} ({exchange.provider}), {way}{one}")
        else:
            played.found[f"{way}: {row.page}, {row.sentence}"] += 1


def _compare_next(exchange: Exchange, asked: JSONObject, raw: Turn, played: Played) -> None:
    first = (exchange.request or {}).get(exchange.key)
    number = 1 if isinstance(first, str) else len(first or ())
    given = asked.get(exchange.key)
    turn = [] if not isinstance(given, list) else _turn_in(given[number:])
    if asked.get("previous_response_id") or asked.get("conversation") or not turn:
        played.turns["kept by the server"] += 1
        return

    played.turns["in the recorded next request"] += 1
    told = [without_nulls(item) for item in raw]
    for item in map(without_nulls, turn):
        mate = _mate_of(item, told)
        if mate is None:
            played.found["next: the program wrote an item of its own"] += 1
            continue

        told = [one for one in told if one is not mate]
        texts = tuple(text.strip() for text in _strings_in(mate) if text.strip())
        for one in differences(item, mate):
            changed = Changed(one.at, one.ours, one.theirs, texts, text_of(exchange))
            rule = next((name for name, holds in PROGRAMS.items() if holds(changed)), None)
            if rule is None:
                played.faults.append(f"{exchange.id} ({exchange.provider}), next{one}")
            else:
                played.found[f"next: {rule}"] += 1

    played.found["next: the program left an item out"] += len(told)


def _turn_in(items: list[Any]) -> Turn:
    """Return the first turn of the assistant behind a conversation, without results."""
    turn: Turn = []
    has_results = False
    for item in items:
        is_result = item.get("role") in RESULTS or str(item.get("type")).endswith("_call_output")
        has_results |= is_result
        if not is_result and (not has_results or item.get("type") == "function_call"):
            turn.append(item)

    return turn


def _mate_of(item: JSONObject, told: Turn) -> JSONObject | None:
    """Return the item of the reply that an item of a request was made of; None where none is."""
    ids = [item[name] for name in ("call_id", "id") if name in item]
    kind = item.get("type", "message" if "role" in item else None)
    by_id = [one for one in told if any(one.get(name) in ids for name in ("id", "call_id"))]
    alike = [one for one in told if one.get("type", "message") == kind or "tool_calls" in one]
    return next(iter([*by_id, *alike]), None)


def without_nulls(value: Any) -> Any:
    """Return JSON without the members that are null."""
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return value

    return {name: without_nulls(one) for name, one in value.items() if one is not None}


@dataclass(frozen=True, slots=True)
class Changed:
    """A difference between the program's turn and the raw client's, and what the reply holds."""

    at: str
    ours: Any
    theirs: Any
    texts: tuple[str, ...]
    body: str

    @property
    def is_new(self) -> bool:
        """Whether the raw client's turn has nothing there."""
        return self.theirs is ABSENT

    @property
    def says_the_same(self) -> bool:
        """Whether both are the same text or the same JSON value."""
        return bool(_said(self.ours) == _said(self.theirs))

    @property
    def is_same_but_blanks(self) -> bool:
        """Whether both are one text but for white space, quotes, and an end that was cut."""
        ours, theirs = (_bare(_said(one)) for one in (self.ours, self.theirs))
        is_cut = len(ours) >= CUT and theirs.startswith(ours[:CUT])
        return ours == theirs or is_cut

    @property
    def is_moved(self) -> bool:
        """Whether each text stands elsewhere in the reply, alone or inside of a text."""
        said = list(_strings_in(self.ours))
        return bool(said) and all(any(text in one for text in self.texts) for one in said)

    @property
    def is_of_the_stream(self) -> bool:
        """Whether another event has the value."""
        return isinstance(self.ours, str) and json.dumps(self.ours) in self.body


def _said(value: Any) -> Any:
    """Return what a value says: of parts their texts, of JSON its value."""
    if isinstance(value, list):
        texts = [one.get("text") for one in value if isinstance(one, dict)]
        value = "".join(text for text in texts if isinstance(text, str))

    with suppress(TypeError, ValueError):
        return json.loads(value)

    return value


def _bare(value: Any) -> str:
    return "".join(str(value).translate(PLAIN).split())


def _strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings_in(one)


PROGRAMS: Mapping[str, Callable[[Changed], bool]] = {
    "the program left a member out": lambda one: one.ours is ABSENT,
    "the program added an empty member": lambda one: one.is_new and not one.ours,
    "the program named the role or the type": lambda one: (
        one.is_new and one.at in ("/role", "/type", "/tool_calls/type")
    ),
    "the program wrote the same text or value in another form": lambda one: one.says_the_same,
    "the program or its recorder changed blanks or quotes, or cut a long text": lambda one: (
        isinstance(one.ours, str | list) and one.is_same_but_blanks
    ),
    "the program made an id where the reply has none": lambda one: (
        one.at.endswith("id") and (one.is_new or not one.theirs)
    ),
    "the program wrote {} for no arguments": lambda one: one.ours == "{}" and not one.theirs,
    "the program wrote words for a blank text": lambda one: not _bare(_said(one.theirs)),
    "the program moved a text of the reply to another place": lambda one: one.is_moved,
    "the program took it from an earlier event": lambda one: one.is_of_the_stream,
    "the raw client's accumulator joins a role that comes in every piece": lambda one: (
        one.at == "/role" and not str(one.theirs).replace(str(one.ours), "")
    ),
    "an id of an equal exchange, which the recordings leave out": lambda one: (
        one.at.endswith("id") and isinstance(one.ours, str)
    ),
}
"""Why a turn in a recorded request is not the raw client's: what the program changed itself."""


def main() -> int:
    """Print what playing the exchanges showed; return the exit code."""
    if not TRAFFIC.is_dir():
        print(f"{TRAFFIC.name}: the recordings are not here, nothing was compared")
        return 0

    all_of_them = exchanges()
    wanted = sys.argv[1:] or all_of_them
    turns = Counter[str]()
    found = Counter[str]()
    faults: list[str] = []
    for exchange in (all_of_them[id_] for id_ in wanted):
        if exchange.is_judged:
            played = play(exchange, all_of_them.get(exchange.next or ""))
            turns += played.turns
            found += played.found
            faults += played.faults

    for name, count in turns.items():
        print(f"turns {name}: {count}")
    for name, count in sorted(found.items()):
        print(f"{count:5} {name}")

    print(*faults, sep="\n")
    print(f"{len(faults)} differences without a row or a rule")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
