"""Tell what each style would say about recorded bad replies of larger models; it asks nothing.

``python benchmarks/recovery/words.py REPLIES.jsonl.gz`` writes said.json: of each style how many
replies it applies to, the tokens that its request has beyond the first one, and how often words of
the model stand in what it says. Whether that would help is not known.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import strictreply as sr
from strictreply.core import shape
from strictreply.measuring import STYLES, RecordedReply, RowRequest
from strictreply.testing import assistant, completion, native_call

SAID = Path(__file__).with_name("said.json")
MODES = ("tools", "content")
MOST = 2_000  # records
TOKEN_BYTES = 4
LONG_WORD = 6  # characters: shorter words stand in any text
OURS = {"answer"}  # stands in every correction of an answer


def bad_replies(path: Path) -> Iterator[RecordedReply]:
    """Yield the recorded replies that do not fit what was asked for."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record["mode"] not in MODES or record["label"]["valid"] is not False:
                continue

            try:
                bad = bad_reply(record)
            except sr.ContractError:
                continue  # a tool of the recording that no contract takes
            if isinstance(bad, RecordedReply):
                yield bad


def bad_reply(record: dict[str, Any]) -> object:
    """Judge one record as the first reply to its request."""
    asked: dict[str, Any] = {"model": record["model"], "messages": record["messages"]}
    if record["mode"] == "tools":
        contract: sr.Contract[Any] = sr.Contract(parallel=True)
        asked["tools"] = record["tools"]
        calls: list[Any] = [
            native_call(call["name"], call["arguments"], f"call_{number}")
            for number, call in enumerate(record["reply"]["tool_calls"])
        ]
        response = completion(assistant(calls=calls))
    else:
        contract = sr.Contract(answer=record["response_schema"])
        response = completion(assistant(record["reply"]["content"]))

    held, _ = shape(contract, asked)
    first = RowRequest.of(contract, held, asked, plain=True)
    return first.after(response)


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from texts_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from texts_in(member)


def told(bad: RecordedReply, request: dict[str, Any]) -> str:
    """Return what a request says in system, user and tool turns beyond the first request."""
    before = {json.dumps(turn) for turn in bad.request["messages"]}
    turns = [turn for turn in request["messages"] if turn["role"] != "assistant"]
    return "\n".join(
        text
        for turn in turns
        if json.dumps(turn) not in before
        for text in texts_in(turn["content"])
    )


def own_words(bad: RecordedReply) -> set[str]:
    """Return the longer words of a reply that do not stand in its request."""
    known = json.dumps(bad.request, ensure_ascii=False)
    message: Any = bad.response["choices"][0]["message"]  # type: ignore[index,call-overload]
    words = re.findall(rf"\w{{{LONG_WORD},}}", "\n".join(texts_in(message)))
    return {word for word in words if word not in known} - OURS


def main(path: Path) -> None:
    """Write the table."""
    warnings.simplefilter("ignore")
    tokens: dict[str, list[int]] = defaultdict(list)
    echoed: dict[str, int] = defaultdict(int)
    count = 0

    for bad in bad_replies(path):
        count += 1
        words = own_words(bad)
        for style in STYLES.values():
            reask = style.reask(bad)
            if reask is None:
                continue

            said = told(bad, reask.request)
            sent = len(json.dumps(reask.request, default=str)) - len(json.dumps(bad.request))
            tokens[style.name].append(sent // TOKEN_BYTES)
            echoed[style.name] += not words.isdisjoint(re.findall(r"\w+", said))
        if count == MOST:
            break

    rows = {
        name: {"n": len(each), "tokens": median(each), "most": max(each), "echoes": echoed[name]}
        for name, each in tokens.items()
    }
    SAID.write_text(json.dumps({"replies": count, "styles": rows}, indent=1) + "\n", "utf-8")
    print(SAID.read_text("utf-8"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
