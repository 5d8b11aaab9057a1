"""Known deviations of servers from the API in a message, as one table with sources.

A row accepts only what has exactly one meaning and what a retry would not fix. What could be
misread has no row: a ``function_call`` without ``tool_calls``, for example.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Any, TypeAlias, cast

from strictreply.values._limits import JSONObject

NeedsNothing: TypeAlias = Callable[[str], bool]
"""Returns whether a declared tool of this name can be called without arguments."""

_LONGEST_NUMBER = 10**40
_STR_OR_NONE = (str, type(None))
_NULL = "null"  # as a text
_MOST_SHARED = 100  # calls of one id that are compared with each other

_THOUGHTS = ("thinking", "reasoning", "redacted_thinking")
"""The types of chunks that hold thoughts: Mistral; Databricks; Anthropic behind gateways."""

_OTHER_NAMES = ("parameters", "args", "params", "input", "kwargs")
"""Other names under which servers send arguments."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One deviation of servers: what they send, how it is read, and a public source.

    ``servers`` are the servers that the source names.
    """

    sends: str
    becomes: str
    source: str
    servers: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class MessageDialect(Dialect):
    """One deviation in a message, and its reader, a function with the name of the row.

    ``read`` returns the message in the form of the API: the same object, if there was no deviation.
    """

    read: Callable[[JSONObject, NeedsNothing], JSONObject]


def in_api_form(
    message: object, needs_nothing: NeedsNothing, *, bare: bool = False
) -> tuple[object, tuple[str, ...]]:
    """Return a message in the form of the API, and the names of the rows that were needed.

    A ``bare`` message need not have a role.
    """
    original = None if type(message) is dict and _is_in_api_form(message) else object_in(message)
    if original is None:
        return message, ()

    read = original
    applied = list[str]()

    for name, dialect in DIALECTS.items():
        if bare and name == "role_missing" and read.get("role") is None:
            continue

        before = read
        read = dialect.read(before, needs_nothing)
        if read is not before:
            applied.append(name)

    return (read if applied else message), tuple(applied)


def _is_in_api_form(message: JSONObject) -> bool:
    """Return whether certainly no row applies, which is the common case.

    Trying each row would cost a third of judging the reply.
    """
    if message.get("role") != "assistant" or message.get("function_call"):
        return False

    if type(message.get("content")) not in _STR_OR_NONE:
        return False

    calls = message.get("tool_calls")
    if calls is not None and type(calls) is not list:
        return False

    ids: set[str] = set()
    for call in calls or ():
        function = call.get("function") if type(call) is dict else None
        if type(function) is not dict or call.get("type") != "function":
            return False

        id_ = call.get("id")
        arguments = function.get("arguments")
        if type(id_) is not str or type(arguments) is not str:
            return False
        if not id_.strip() or _says_nothing(arguments) or id_ in ids:
            return False

        ids.add(id_)

    return True


def text_in(content: object) -> str | None:
    """Return the text of a content; of a list, the joined text chunks without thoughts.

    None for a list with any other chunk, and for a value that is neither a text nor a list.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return None

    texts: list[str] = []
    for chunk in map(object_in, content):
        kind = None if chunk is None else chunk.get("type")
        text = chunk.get("text") if chunk is not None and kind == "text" else None
        if isinstance(text, str):
            texts.append(text)
        elif kind not in _THOUGHTS:
            return None

    return "".join(texts)


def thoughts_in(content: object) -> list[JSONObject]:
    """Return the chunks of a content that contain the model's thoughts.

    Providers need them back unchanged.
    """
    if not isinstance(content, list | tuple):
        return []

    chunks = [chunk for chunk in map(object_in, content) if chunk is not None]
    return [chunk for chunk in chunks if chunk.get("type") in _THOUGHTS]


def object_in(value: object) -> JSONObject | None:
    """Return a mapping, or an SDK object as a mapping; None for anything else."""
    if isinstance(value, Mapping):
        return cast("JSONObject", value)

    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        return None

    try:
        dumped = dump(mode="json", exclude_unset=True, warnings=False)
    except (TypeError, ValueError, RecursionError):
        # an object with values that are not JSON is judged unchanged
        return None

    return cast("JSONObject", dumped) if isinstance(dumped, dict) else None


def _role_model(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    return {**message, "role": "assistant"} if message.get("role") == "model" else message


def _role_missing(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    return {**message, "role": "assistant"} if _is_blank(message.get("role")) else message


def _content_chunks(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    content = message.get("content")
    text = None if content is None or isinstance(content, str) else text_in(content)
    return message if text is None else {**message, "content": text}


def _content_object(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    text = written(message.get("content"))
    return message if text is None else {**message, "content": text}


def _calls(message: JSONObject) -> list[object]:
    calls = message.get("tool_calls")
    return list(calls) if isinstance(calls, list | tuple) else []


def _call_empty(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    calls = message.get("tool_calls")
    if not calls:
        is_read = calls is None or isinstance(calls, list | tuple)
        return message if is_read or not is_blank(calls) else {**message, "tool_calls": None}

    given = _calls(message)
    left = [call for call in given if not _is_empty_call(call)]
    if len(left) == len(given):
        return message

    return {**message, "tool_calls": left or None}


def _is_empty_call(call: object) -> bool:
    """Return whether a call is empty: it has at most a type or an index."""
    told = {} if call is None else object_in(call)
    if told is None:
        return False

    try:
        return is_blank([told[name] for name in told if name not in ("type", "index")])
    except RecursionError:
        return False


def _call_repeated(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    if "response" in message:
        return message  # its items correspond to its calls, one by one

    left: list[Any] = []
    places: dict[str, int] = {}
    given = _calls(message)
    for call in given:
        told = object_in(call) or {}
        id_ = told.get("id")
        place = places.get(id_) if isinstance(id_, str) and not _is_blank(id_) else None
        if place is not None and is_same_call(left[place], told):
            left[place] = with_others_of(told, left[place])
            continue

        if isinstance(id_, str):
            places.setdefault(id_, len(left))

        left.append(call)

    return message if len(left) == len(given) else {**message, "tool_calls": left}


def is_same_call(one: object, other: object) -> bool:
    """Return whether two calls have the same kind, name and arguments."""
    kind, name, arguments = _said_of_call(one)
    other_kind, other_name, other_arguments = _said_of_call(other)
    labels = (kind, name)
    if not all(isinstance(label, str) for label in (*labels, other_kind, other_name)):
        return False

    return labels == (other_kind, other_name) and is_same_json(arguments, other_arguments)


def _said_of_call(call: object) -> tuple[object, object, object]:
    told = object_in(call) or {}
    name, arguments = _name_and_arguments(told.get("function"))
    return told.get("type") or "function", name, arguments


def is_same_json(one: object, other: object) -> bool:
    """Return whether two texts are equal, or contain equal JSON."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return one is None and other is None
    if one == other:
        return True

    try:
        values = [json.loads(text, object_pairs_hook=_members) for text in (one, other)]
        first, second = (json.dumps(value, sort_keys=True) for value in values)
    except (ValueError, RecursionError):
        return False

    return first == second


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member occurs twice")

    return members


def with_others_of(repeated: JSONObject, call: object) -> JSONObject:
    """Return a call with the other members of its copy; blank members add nothing."""
    told = object_in(call) or {}
    function = object_in(told.get("function")) or {}
    beside = _said_around(object_in(repeated.get("function")) or {}, ("name", "arguments"))
    around = _said_around(repeated, ("id", "type", "function"))
    return told | around | {"function": function | beside}


def _said_around(held: JSONObject, read: tuple[str, ...]) -> JSONObject:
    return {name: held[name] for name in held if name not in read and not is_blank(held[name])}


def _each_call(
    change: Callable[[JSONObject, NeedsNothing], JSONObject],
) -> Callable[..., JSONObject]:
    def read(message: JSONObject, needs_nothing: NeedsNothing) -> JSONObject:
        calls = _calls(message)
        changed = False

        for index, call in enumerate(calls):
            told = object_in(call)
            if told is not None and (other := change(told, needs_nothing)) is not told:
                calls[index] = other
                changed = True

        return {**message, "tool_calls": calls} if changed else message

    return read


def _arguments_object(call: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    function = object_in(call.get("function"))
    if function is None or (text := written(function.get("arguments"))) is None:
        return call

    return {**call, "function": {**function, "arguments": text}}


def written(arguments: object) -> str | None:
    """Return an object as the JSON text that the API would send; None for anything else."""
    if not isinstance(arguments, dict):
        return None

    try:
        # NaN is written here, and rejected by the reader
        return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None


def _arguments_empty(call: JSONObject, needs_nothing: NeedsNothing) -> JSONObject:
    function = object_in(call.get("function"))
    if function is None:
        return call

    name = function.get("name")
    if not _says_nothing(function.get("arguments")):
        return call
    if not isinstance(name, str) or not needs_nothing(name):
        return call

    # arguments under another name, or in another place, would be lost
    if call.get("arguments") or any(function.get(one) or call.get(one) for one in _OTHER_NAMES):
        return call

    return {**call, "function": {**function, "arguments": "{}"}}


def _call_type_missing(call: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    is_missing = _is_blank(call.get("type")) and "function" in call
    return {**call, "type": "function"} if is_missing else call


def _call_id_number(call: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    id_ = call.get("id")
    if isinstance(id_, bool) or not isinstance(id_, int | float) or not abs(id_) < _LONGEST_NUMBER:
        return call

    return {**call, "id": json.dumps(id_)}


def _call_id_missing(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    calls = _calls(message)
    told = {index: call for index, one in enumerate(calls) if (call := object_in(one)) is not None}
    lacking = {index: call for index, call in told.items() if _is_blank(call.get("id"))}
    if not lacking:
        return message

    ids = [call.get("id") for index, call in told.items() if index not in lacking]
    made = made_ids(message, {id_ for id_ in ids if isinstance(id_, str)})
    for index, call in lacking.items():
        calls[index] = {**call, "id": next(made)}

    return {**message, "tool_calls": calls}


def made_ids(message: JSONObject, taken: set[str]) -> Iterator[str]:
    """Yield new ids for the calls of a message, and add them to the taken ones.

    They are derived from the reply, so that reading the same reply again gives the same ids, as
    durable steps require.
    """
    seed = json.dumps(message, default=lambda value: type(value).__name__, skipkeys=True)
    for number in count():
        # nine letters and digits, for the strictest servers (Mistral's templates)
        digest = sha256(f"{number} {seed}".encode(errors="surrogatepass"))
        id_ = digest.hexdigest()[:9]
        if id_ not in taken:
            taken.add(id_)
            yield id_


def _call_id_shared(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    if "response" in message:
        return message  # its items correspond to its calls, one by one

    calls = _calls(message)
    told = [object_in(call) or {} for call in calls]
    by_id: dict[str, list[int]] = {}
    for index, call in enumerate(told):
        id_ = call.get("id")
        if isinstance(id_, str) and not _is_blank(id_):
            by_id.setdefault(id_, []).append(index)

    shared = [indexes for indexes in by_id.values() if len(indexes) > 1]
    read = [indexes for indexes in shared if _are_several([told[index] for index in indexes])]
    if not read:
        return message

    made = made_ids(message, set(by_id))
    for index in sorted(index for indexes in read for index in indexes[1:]):
        calls[index] = {**told[index], "id": next(made)}

    return {**message, "tool_calls": calls}


def _are_several(calls: list[JSONObject]) -> bool:
    """Return whether calls with one id are different calls: each is complete, and none a copy."""
    if len(calls) > _MOST_SHARED:
        return False

    places = [call["index"] for call in calls if "index" in call]
    if any(place in places[:at] for at, place in enumerate(places)):
        return False

    said = [_said_of_call(call) for call in calls]
    forms: list[tuple[object, JSONObject]] = []
    for kind, name, arguments in said:
        value = _object_written(arguments)
        if kind != "function" or not isinstance(name, str) or _is_blank(name) or value is None:
            return False
        if any(name == other and _is_form(value, told) for other, told in forms):
            return False

        forms.append((name, value))

    return True


def _object_written(arguments: object) -> JSONObject | None:
    """Return the object in a text of arguments; None for any other text."""
    if not isinstance(arguments, str):
        return None

    try:
        value = json.loads(arguments, object_pairs_hook=_members)
    except (ValueError, RecursionError):
        return None

    return cast("JSONObject", value) if isinstance(value, dict) else None


def _is_form(one: JSONObject, other: JSONObject) -> bool:
    """Return whether one of two objects may be an incomplete form of the other."""
    return _begins(one, other) or _begins(other, one)


def _begins(one: JSONObject, other: JSONObject) -> bool:
    return all(name in other and _begins_value(one[name], other[name]) for name in one)


def _begins_value(one: object, other: object) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return other.startswith(one)

    return one == other


def is_blank(value: object) -> bool:
    """Return whether a value is null or an empty text, or contains only such values."""
    if isinstance(value, dict):
        return all(map(is_blank, value.values()))
    if isinstance(value, list):
        return all(map(is_blank, value))

    return value is None or value == ""


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _says_nothing(value: object) -> bool:
    return _is_blank(value) or (isinstance(value, str) and value.strip() == _NULL)


def _function_call_empty(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    legacy = object_in(message.get("function_call"))
    if not legacy or not all(map(_is_blank, legacy.values())):
        return message

    return {name: value for name, value in message.items() if name != "function_call"}


def _function_call_repeated(message: JSONObject, _needs_nothing: NeedsNothing) -> JSONObject:
    own = _name_and_arguments(message.get("function_call"))
    calls = [object_in(call) or {} for call in _calls(message)]
    others = [_name_and_arguments(call.get("function")) for call in calls]
    if own not in others or not all(isinstance(part, str) for part in own):
        return message

    return {name: value for name, value in message.items() if name != "function_call"}


def _name_and_arguments(function: object) -> list[object]:
    given = object_in(function) or {}
    return [written(given.get(name)) or given.get(name) for name in ("name", "arguments")]


ANSWER_OBJECT = "content_object"
"""The row that applies only if an answer is JSON."""

DIALECTS: Mapping[str, MessageDialect] = {
    "function_call_empty": MessageDialect(
        "an empty legacy `function_call` next to the content",
        "nothing",
        "pydantic/pydantic-ai, tests/models/cassettes/test_snowflake#0 (Snowflake)",
        _function_call_empty,
        servers=("Snowflake",),
    ),
    "function_call_repeated": MessageDialect(
        "a legacy `function_call` that repeats one of the `tool_calls`",
        "only the `tool_calls`",
        "MeetKai/functionary#156 (llama-cpp-python)",
        _function_call_repeated,
        servers=("llama-cpp-python",),
    ),
    "role_model": MessageDialect(
        "the role `model`",
        "`assistant`",
        "stanfordnlp/dspy#1824 (Gemini)",
        _role_model,
        servers=("Gemini",),
    ),
    "role_missing": MessageDialect(
        "no role, or a blank role",
        "`assistant`",
        "danny-avila/LibreChat#1221",
        _role_missing,
    ),
    "content_chunks": MessageDialect(
        "the content as a list of text chunks, possibly with chunks of thinking",
        "the joined text; the thinking is not content, and is sent back to the server",
        "vercel/ai#13703 (Mistral, Ollama); BerriAI/litellm#9700 (Databricks)",
        _content_chunks,
        servers=("Mistral", "Ollama", "Databricks"),
    ),
    ANSWER_OBJECT: MessageDialect(
        "an answer that must be JSON, as an object instead of JSON text",
        "its JSON text; if the answer may be any text, the object is rejected",
        "posit-dev/chatlas, tests/_vcr/test_provider_cloudflare#0 (Cloudflare Workers AI)",
        _content_object,
        servers=("Cloudflare Workers AI",),
    ),
    "call_empty": MessageDialect(
        "`tool_calls` that contain `{}`, null or another empty call, or are `{}` or a blank text",
        "no call: only the text, or an empty reply",
        "jjang-ai/vmlx#219 (of a stream)",
        _call_empty,
    ),
    "call_type_missing": MessageDialect(
        "a call whose type is missing, null or blank",
        "`function`",
        "EricLBuehler/mistral.rs#687",
        _each_call(_call_type_missing),
        servers=("mistral.rs",),
    ),
    "arguments_object": MessageDialect(
        "the arguments as an object instead of JSON text",
        "its JSON text",
        "ggml-org/llama.cpp#20198; huggingface/text-generation-inference#2136",
        _each_call(_arguments_object),
        servers=("llama.cpp", "TGI"),
    ),
    "arguments_empty": MessageDialect(
        "missing, null or blank arguments, or the text `null`, for a tool that requires none, if "
        "no other member can hold them",
        "`{}`",
        "ogx-ai/ogx#3560 (vLLM); simonw/llm#1164 (OpenRouter); NousResearch/hermes-agent#83937",
        _each_call(_arguments_empty),
        servers=("vLLM", "OpenRouter"),
    ),
    "call_id_number": MessageDialect(
        "a number as the id of a call",
        "the number as text",
        "anomalyco/opencode#19947 (NVIDIA NIM, LM Studio)",
        _each_call(_call_id_number),
        servers=("NVIDIA NIM", "LM Studio"),
    ),
    "call_repeated": MessageDialect(
        "a call again: same id, name and arguments, other members may differ",
        "the call, once; each other member from the last copy that has it",
        "mudler/LocalAI#9722; QuantumNous/new-api#6278 (of a stream)",
        _call_repeated,
    ),
    "call_id_shared": MessageDialect(
        "different calls with the same id: other names, or other complete arguments",
        "the calls; later ones get generated ids",
        "HKUDS/nanobot#3943 (DeepSeek, Zhipu)",
        _call_id_shared,
        servers=("DeepSeek", "Zhipu"),
    ),
    "call_id_missing": MessageDialect(
        "a call whose id is missing, null or blank",
        "a generated id, unique in its conversation",
        "vercel/ai#7834 (Gemini); lmstudio-ai/lmstudio-bug-tracker#830; ggml-org/llama.cpp#11992",
        _call_id_missing,
        servers=("Gemini", "LM Studio", "llama.cpp"),
    ),
}
"""Accepted deviations in a message, by the name that an attempt records."""

IDS_OF_SERVERS = frozenset({"call_id_number", "call_id_missing", "call_id_shared"})
"""If one of these rows applies, the model cannot have copied the ids of the message."""
