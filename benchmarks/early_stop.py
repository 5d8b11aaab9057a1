"""What the early stop stops and what it costs.

It is soundness, sharpness by kind of fault, distance to llguidance, and output saved.

``benchmarks/streaming.py`` prints these. The distances need ``llguidance``, which ``make streams``
has; what is saved is measured on ``../shared/corpus``, where that is there.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import statistics
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from strictreply import Contract, ContractError, ContractWarning, Invalid, Valid
from strictreply.contract._early_stop import EarlyStop
from support.live_documents import SCHEMAS, VALUES, spelled

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "replies.jsonl.gz"
MUTATIONS = 2_000
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "format": "email"},
        "role": {"enum": ["admin", "editor", "reader"]},
        "active": {"type": "boolean"},
        "score": {"type": "number", "exclusiveMaximum": 10},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 4},
        "address": {
            "type": "object",
            "properties": {
                "street": {"type": "string"},
                "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
            },
            "required": ["street", "zip"],
            "additionalProperties": False,
        },
        "boss": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "notes": {"type": "string"},
    },
    "required": [
        "name",
        "age",
        "email",
        "role",
        "active",
        "score",
        "tags",
        "address",
        "boss",
        "notes",
    ],
    "additionalProperties": False,
}
FORESEEN = ("type", "extra key", "enum", "duplicate key", "unknown tool", "bounds")
OUT_OF_ORDER = ("duplicate key", "missing key")
CHECKS = list(HealthCheck)
WORDS = ["a plain sentence", "Grüße 😀", 'with "quotes" and \\', "x", "one\ntwo"]


def person(dice: random.Random) -> dict[str, Any]:
    """Make a value that fits, its members in the schema's order."""
    return {
        "name": dice.choice(WORDS),
        "age": dice.randint(0, 150),
        "email": "a@example.com",
        "role": dice.choice(["admin", "editor", "reader"]),
        "active": dice.choice([True, False]),
        "score": dice.choice([1, 2.5, 9]),
        "tags": dice.sample(WORDS, dice.randint(0, 4)),
        "address": {"street": dice.choice(WORDS), "zip": f"{dice.randint(0, 99999):05}"},
        "boss": dice.choice([None, "Ada"]),
        "notes": " ".join(dice.choices(WORDS, k=5)),
    }


def contract_of(schema: Any) -> Contract[Any]:
    """Make the contract of one tool."""
    return Contract(
        tools=[{"type": "function", "function": {"name": "act", "parameters": schema}}],
        parallel=True,
    )


def stopped_early_at(contract: Contract[Any], name: str, text: str) -> tuple[str, int] | None:
    """Feed one call character by character.

    Return the code, and the character at which it was stopped early.
    """
    early_stop = EarlyStop(contract)
    if (issue := early_stop.call(0, name, "")) is not None:
        return issue.code, 0

    for at, char in enumerate(text):
        if (issue := early_stop.call(0, None, char)) is not None:
            return issue.code, at + 1

    return None


def reply(*calls: tuple[str, str]) -> dict[str, Any]:
    """Write calls as the message that the judge reads."""
    told = [
        {"id": str(number), "type": "function", "function": {"name": name, "arguments": text}}
        for number, (name, text) in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": told}


def soundness(wanted: int) -> None:
    """Feed valid documents of generated schemas character by character, in several spellings."""
    counted: Counter[str] = Counter()

    @given(schema=SCHEMAS, values=st.lists(VALUES, min_size=20, max_size=20), number=st.integers())
    @settings(
        max_examples=100,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=CHECKS,
    )
    def run(schema: Any, values: list[Any], number: int) -> None:
        dice = random.Random(number)  # noqa: S311 - dice for test data
        document = {"$defs": schema["$defs"], "properties": {"v": {**schema, "$defs": {}}}}
        try:
            contract = Contract(answer=document, extra=dice.choice(["forbid", "schema"]))
        except ContractError:
            counted["refused"] += 1
            return

        for value in values:
            if contract.answer.schema is None or contract.answer.schema.check({"v": value}):
                continue

            for _ in range(5):
                text = spelled({"v": value}, dice)
                early_stop = EarlyStop(contract)
                counted["documents"] += 1
                counted["prefixes"] += len(text)
                counted["early stops"] += any(early_stop.text(char) is not None for char in text)

    number = 0
    while counted["prefixes"] < wanted:
        before = counted["prefixes"]
        number += 1
        seed(number)(run)()
        if counted["prefixes"] == before:
            raise ValueError("no schema took a value")

    tried = f"{counted['prefixes']:,} beginnings of {counted['documents']:,} valid documents"
    print(f"Sound: {counted['early stops']} early stops in {tried} (wanted: 0).")


def written(value: Any) -> str:
    """Write JSON without escapes of letters: llguidance refuses them beyond ASCII."""
    return json.dumps(value, ensure_ascii=False)


def mutations(dice: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of one fault, the tool's name and the arguments with it."""
    good = person(dice)
    names = list(good)
    wrong: dict[str, Any] = {
        "type": [],
        "enum": "owner",
        "bounds": 151,
        "length": "x" * 41,
        "pattern": "1234x",
    }

    places = {"enum": "role", "bounds": "age", "length": "name", "type": dice.choice(names[:6])}
    for kind, value in wrong.items():
        bad = copy.deepcopy(good)
        if kind == "pattern":
            bad["address"]["zip"] = value
        else:
            bad[places[kind]] = value

        yield kind, "act", written(bad)

    yield "items", "act", written({**good, "tags": ["a"] * 5})
    at = dice.randrange(len(names))
    members = list(good.items())
    yield "extra key", "act", written(dict([*members[:at], ("surplus", 1), *members[at:]]))

    texts = [f"{written(name)}: {written(value)}" for name, value in members]
    texts.insert(dice.randrange(at + 1, len(texts) + 1), texts[at])
    yield "duplicate key", "act", "{" + ", ".join(texts) + "}"
    yield "unknown tool", "akt", written(good)
    yield "missing key", "act", written(dict([*members[:at], *members[at + 1 :]]))


def sharpness() -> None:
    """Stop early single faults, and hold the codes to the judge's."""
    contract = contract_of(PERSON)
    dice = random.Random(2)  # noqa: S311 - the same
    found: dict[str, Counter[str]] = defaultdict(Counter)
    saved: dict[str, list[float]] = defaultdict(list)
    distances: dict[str, list[int]] = defaultdict(list)
    behind = oracle()

    for _ in range(MUTATIONS // 10):
        for kind, name, text in mutations(dice):
            verdict = contract.check(reply((name, text)))
            if not isinstance(verdict, Invalid):
                raise TypeError(kind)

            stopped = stopped_early_at(contract, name, text)
            found[kind]["all"] += 1
            if stopped is None:
                continue

            code, at = stopped
            found[kind]["stopped"] += at < len(text)
            found[kind]["same code"] += code in {issue.code for issue in verdict.issues}
            saved[kind].append(1 - at / len(text))

            if behind is not None and name == "act" and (other := behind(text)) is not None:
                distances[kind].append(len(text[:at].encode()) - other)

    print(
        "| one fault | stopped before the end | with the judge's code | median saved | median "
        "bytes behind llguidance |"
    )
    print("| --- | --: | --: | --: | --: |")

    for kind, count in found.items():
        shares = [count[key] / count["all"] for key in ("stopped", "same code")]
        far = f"{statistics.median(distances[kind]):g}" if distances[kind] else "-"
        print(
            f"| {kind} | {shares[0]:.1%} | {shares[1]:.1%} | "
            f"{statistics.median(saved[kind] or [0]):.1%} | {far} |"
        )

    foreseen = [found[kind] for kind in FORESEEN]
    share = sum(count["stopped"] for count in foreseen) / sum(count["all"] for count in foreseen)
    print(
        f"\nSharp: {share:.1%} of the faults {', '.join(FORESEEN)} are stopped before the end "
        "(wanted: 95 %)."
    )

    far = [one for kind in distances if kind not in OUT_OF_ORDER for one in distances[kind]]
    if far:
        print(
            f"Position: median {statistics.median(far):g} bytes behind llguidance, {max(far)} at "
            "most (wanted: 0);"
        )
        print(
            f"of {' and '.join(OUT_OF_ORDER)} it knows by the order of the keys, which JSON "
            "leaves free."
        )
    else:
        print("Position: not measured, for llguidance is not installed: make streams has it.")


def oracle() -> Any:
    """Return a function that counts how many bytes llguidance takes before it refuses one.

    None where llguidance is not installed.
    """
    try:
        import llguidance as llg  # noqa: PLC0415 - an oracle that need not be there
    except ImportError:
        return None

    tokenizer = llg.LLTokenizer("byte")
    grammar = llg.LLMatcher.grammar_from_json_schema(PERSON)

    def refused_at(text: str) -> int | None:
        matcher = llg.LLMatcher(tokenizer, grammar, log_level=0)
        for at, byte in enumerate(text.encode()):
            if not matcher.consume_token(byte):
                return at + 1

        return None

    return refused_at


def saving() -> None:
    """Feed the recorded failures of the corpus.

    What is behind the early stop would not have been generated.
    """
    total = 0
    saved = 0
    stopped = 0
    count = 0
    wrong = 0

    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            try:
                made = recorded(record)
            except (ContractError, ValueError, TypeError, KeyError):
                continue

            if made is None:
                continue

            contract, message, early_stop, parts = made
            size = sum(len(text) for *_, text in parts)
            at, is_stopped_early = fed(early_stop, parts)

            if isinstance(contract.check(message), Valid):
                wrong += is_stopped_early
            else:
                count += 1
                total += size
                stopped += is_stopped_early
                saved += size - at

    print(
        f"Saved: of {count} recorded failures {stopped / count:.1%} stopped early, "
        f"{saved / total:.1%} of their characters saved (wanted: 45 %); "
        f"{wrong} valid replies stopped early."
    )


def fed(early_stop: EarlyStop, parts: list[tuple[int, bool, str]]) -> tuple[int, bool]:
    """Feed parts until an early stop; return the characters fed, and whether there was one."""
    at = 0
    for index, is_name, text in parts:
        for char in text:
            at += 1
            if index < 0:
                issue = early_stop.text(char)
            elif is_name:
                issue = early_stop.call(index, char, "")
            else:
                issue = early_stop.call(index, None, char)

            if issue is not None:
                return at, True

    return at, False


def recorded(
    record: dict[str, Any],
) -> tuple[Any, Any, EarlyStop, list[tuple[int, bool, str]]] | None:
    """Read one record: its contract, its message, and its parts in the order they were written."""
    if record["mode"] == "content":
        contract = Contract(answer=record["response_schema"])
        text = record["reply"]["content"]
        return (
            contract,
            {"role": "assistant", "content": text},
            EarlyStop(contract),
            [(-1, False, text)],
        )

    calls = record["reply"].get("tool_calls")
    if record["mode"] != "tools" or not calls or record["label"].get("valid") is None:
        return None

    contract = Contract(tools=record["tools"], parallel=True)
    parts: list[tuple[int, bool, str]] = []
    for number, call in enumerate(calls):
        parts += [(number, True, call["name"]), (number, False, call["arguments"])]

    message = reply(*((call["name"], call["arguments"]) for call in calls))
    return contract, message, EarlyStop(contract), parts


def cost() -> None:
    """Time pieces of four characters, at two lengths."""
    contract = contract_of(PERSON)
    dice = random.Random(3)  # noqa: S311 - the same
    for count in (1, 4):
        texts = []
        for _ in range(50):
            good = person(dice)
            good["notes"] *= count
            texts.append(json.dumps(good))

        pieces = [[text[at : at + 4] for at in range(0, len(text), 4)] for text in texts]
        best = min(run(contract, pieces) for _ in range(5))
        number = sum(map(len, pieces))
        print(
            f"The early stop alone, {number // 50} pieces of 4 characters: "
            f"{best / number * 1e6:.2f} µs each."
        )


def run(contract: Contract[Any], documents: list[list[str]]) -> float:
    """Time the reading of documents."""
    started = time.process_time()
    for document in documents:
        early_stop = EarlyStop(contract)
        early_stop.call(0, "act", "")
        for piece in document:
            early_stop.call(0, None, piece)

    return time.process_time() - started


def figures(prefixes: int) -> None:
    """Print all of it; contracts that contradict themselves are part of what is tried."""
    warnings.simplefilter("ignore", ContractWarning)
    sharpness()
    cost()
    if CORPUS.is_file():
        saving()
    else:
        print("Saved: not measured, for the recorded failures are not there.")
    soundness(prefixes)
