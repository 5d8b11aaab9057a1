"""llama.cpp's own server on a cassette.

What it streamed is recorded as it came, judged, and served again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai

from strictreply.testing import Cassette, record, replay
from strictreply.testing._wire import WireEnding
from strictreply.testing.mounting import openai_client

MESSAGES: list[Any] = [{"role": "user", "content": "go on"}]
ASKED: dict[str, Any] = {"model": "any", "messages": MESSAGES, "stream": True, "seed": 1}


def texts(stream: Any) -> list[str]:
    """Read a stream to its end: the text of each chunk."""
    return [choice.delta.content or "" for chunk in stream for choice in chunk.choices]


def test_a_stream_is_recorded_and_served_again(llamacpp: str, tmp_path: Path) -> None:
    """The cassette holds the whole text with its finish reason, and the replay gives the same
    chunks.
    """
    path = tmp_path / "llama.jsonl"
    with openai.OpenAI(base_url=llamacpp, api_key="none", max_retries=0) as client:
        live = texts(record(client, path).chat.completions.create(**ASKED, max_tokens=48))

    [taken] = Cassette(path)
    completion: Any = taken.completion
    choice = completion["choices"][0]
    assert choice["message"]["content"] == "".join(live)

    assert choice["finish_reason"] in {"length", "stop"}
    assert taken.reply.ending is WireEnding.WHOLE
    assert (
        texts(openai_client(replay(path)).chat.completions.create(**ASKED, max_tokens=48)) == live
    )


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
    [taken] = Cassette(path)
    assert (taken.reply.ending, taken.completion) == (WireEnding.CUT, None)
    assert Cassette(path).failures() == []
