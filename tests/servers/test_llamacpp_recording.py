"""llama.cpp's own server is recorded: what it streamed is written as it came, and judged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai

from strictreply.batch.lines import open_lines
from strictreply.testing import record
from strictreply.testing._recordings import RecordedVerdict, RecordingJudge, UnreadableLine
from support.testing.recorded_lines import lines_in

MESSAGES: list[Any] = [{"role": "user", "content": "go on"}]
ASKED: dict[str, Any] = {"model": "any", "messages": MESSAGES, "stream": True, "seed": 1}


def texts(stream: Any) -> list[str]:
    """Read a stream to its end: the text of each chunk."""
    return [choice.delta.content or "" for chunk in stream for choice in chunk.choices]


def test_a_stream_is_recorded(llamacpp: str, tmp_path: Path) -> None:
    """The recording holds the whole text with its finish reason, and has a verdict."""
    path = tmp_path / "llama.jsonl"
    with openai.OpenAI(base_url=llamacpp, api_key="none", max_retries=0) as client:
        live = texts(record(client, path).chat.completions.create(**ASKED, max_tokens=48))

    [line] = lines_in(path)
    choice = line.response["choices"][0]
    assert choice["message"]["content"] == "".join(live)

    assert choice["finish_reason"] in {"length", "stop"}
    assert line.ending == "whole"
    [(number, text, _)] = open_lines(path)
    assert isinstance(RecordingJudge().judge(number, text), RecordedVerdict)


def test_a_stream_closed_early_is_recorded_as_cut(llamacpp: str, tmp_path: Path) -> None:
    """What was left unread is not there; that the reader left is no fault of the reply."""
    path = tmp_path / "llama.jsonl"

    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=llamacpp, api_key="none", max_retries=0) as client:
            recorded = record(client, path)
            asked = recorded.chat.completions.create(
                **ASKED, max_tokens=4_000, extra_body={"ignore_eos": True}
            )
            async with await asked as stream:
                await anext(aiter(stream))

    asyncio.run(main())
    [line] = lines_in(path)
    assert (line.ending, line.response) == ("cut", None)
    [(number, text, _)] = open_lines(path)
    assert isinstance(RecordingJudge().judge(number, text), UnreadableLine)
