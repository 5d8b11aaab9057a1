"""Replays an invalid reply in the request that corrects it."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import count, islice

from strictreply.contract._contract import Contract
from strictreply.contract._judge import MAX_FAULTY_CALLS
from strictreply.reading._decoding import decode
from strictreply.retry._scoping import Scope
from strictreply.values._drafts import Answered, Draft, DraftCall
from strictreply.values._limits import Message
from strictreply.values._replies import Invalid
from strictreply.wires._wire import Replay

MAX_REPLAY_CHARS = 8_000
"""How many characters of the model's own text are sent back to it."""

_NOT_RUN = "Not run: the reply was not valid."
_KEPT = "Valid, and kept as it is."
_EMPTY = "(an empty reply)"

_API_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# base64 included: LiteLLM puts Gemini's signatures into ids (litellm#16895)
_SAFE_ID = re.compile(r"[A-Za-z0-9_.:|/+=-]+")


def replayed(
    contract: Contract,
    draft: Draft,
    words: Sequence[str],
    scope: Scope | None,
    taken: Container[str] = (),
    human: str | None = None,
    *,
    replay: Replay,
) -> list[Message]:
    """Return the invalid reply as the assistant's turn, and the turns with its correction.

    The ``words`` answer the calls of the scope, one by one, or are the user's turn, like the text
    of a ``human``. ``taken`` are the ids of earlier calls.
    """
    if not _replayable(contract, draft, replay):
        quoted = _shown(replay.quoted(draft), replay) or _EMPTY
        said = "\n".join(words) if human is None else human
        return replay.turns(Answered(replace(draft, text=quoted, calls=()), words=said))

    ids = _ids(draft.calls, taken, contract.limits.id_bytes)
    calls = tuple(replace(call, id=id_) for call, id_ in zip(draft.calls, ids, strict=True))
    text = None if draft.text is None else _shown(draft.text, replay)
    if human is not None:
        words = [_NOT_RUN] * (1 if scope is None else len(scope.calls))

    results = _results(len(calls), words, scope)
    return replay.turns(Answered(replace(draft, text=text, calls=calls), results, human))


def _results(count_of_calls: int, words: Sequence[str], scope: Scope | None) -> tuple[str, ...]:
    """Return a result for each call: a correction, or what happened to the call."""
    answered = [count_of_calls - 1] if scope is None else [call.index for call in scope.calls]
    corrections = dict(zip(answered, words, strict=True))
    # after so many invalid calls, no more were read
    last = answered[-1] if len(answered) >= MAX_FAULTY_CALLS else count_of_calls

    results: list[str] = []
    for index in range(count_of_calls):
        beside = _NOT_RUN if scope is None or index > last else _KEPT
        results.append(corrections.get(index, beside))

    return tuple(results)


def _shown(text: str, replay: Replay) -> str:
    is_whole = replay.is_verbatim or len(text) <= MAX_REPLAY_CHARS
    return text if is_whole else text[:MAX_REPLAY_CHARS] + "…"


def _ids(calls: Sequence[DraftCall], taken: Container[str], most: int) -> list[str]:
    """Return the ids of calls.

    All are generated if one is taken, occurs twice, or is not accepted by every server.
    """
    ids = [call.id if isinstance(call.id, str) else "" for call in calls]
    is_kept = all(len(id_) <= most and _SAFE_ID.fullmatch(id_) and id_ not in taken for id_ in ids)
    if is_kept and len(set(ids)) == len(ids):
        return ids

    # nine letters and digits, for the strictest servers (Mistral's templates)
    numbered = (f"call{number:05}" for number in count(1))
    free = (id_ for id_ in numbered if id_ not in taken)
    return list(islice(free, len(ids)))


def encodable(turns: list[Message]) -> list[Message]:
    """Return turns that a request can contain.

    ``?`` replaces an unpaired surrogate in the model's text.
    """
    written = json.dumps(turns, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode(errors="replace"))  # type: ignore[no-any-return]

    return turns


def _replayable(contract: Contract, draft: Draft, replay: Replay) -> bool:
    """Return whether servers accept the calls in a history.

    They do if the names are allowed and the arguments are JSON objects, or if the wire writes such
    calls.
    """
    if contract.channel != "native" or not draft.calls:
        return False
    if not all(_has_taken_name(contract, call) for call in draft.calls):
        return False
    if not (replay.is_verbatim or all(map(_is_readable, draft.calls))):
        return False

    # long calls are replayed only if they contain something that a provider needs back
    return len(replay.quoted(draft)) <= MAX_REPLAY_CHARS or replay.has_sealed_calls(draft)


def _has_taken_name(contract: Contract, call: DraftCall) -> bool:
    name = call.name
    if not isinstance(name, str):
        return False

    return call.is_text or name in contract.by_name or bool(_API_NAME.fullmatch(name))


def _is_readable(call: DraftCall) -> bool:
    if not isinstance(call.arguments, str):
        return False
    if call.is_text:
        return call.is_whole

    # chat templates parse the arguments again
    return call.arguments == "" or isinstance(decode(call.arguments), dict)


def words_of(draft: Draft) -> str:
    """Return the model's own words in a normal form, so that equal replies compare equal.

    The spelling of JSON and the ids of calls do not matter.
    """
    texts: list[tuple[object, object]] = [("", draft.text)]
    texts += [(call.name, call.arguments) for call in draft.calls]
    return json.dumps([(name, _read(text)) for name, text in texts])


def _read(text: object) -> object:
    """Return the value of a JSON text; return anything else unchanged."""
    value = decode(text) if isinstance(text, str) else text
    return text if isinstance(value, Invalid) else value
