"""llama.cpp's own server under streams, the raw SDK's and guarded ones.

They are read to the end, closed early, or stopped early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest

import strictreply as sr
from support.scripted import http

MESSAGES: list[Any] = [{"role": "user", "content": "go on"}]
LONG = 15_999
"""More tokens than anybody waits for; no other request asks for this many, so its slot is told by
it.
"""
POLLS = 5_000


@pytest.fixture(params=["raw", "wrapped"])
def client(llamacpp: str, request: pytest.FixtureRequest) -> Iterator[openai.OpenAI]:
    """The raw SDK, and a wrapped client of it."""
    with openai.OpenAI(base_url=llamacpp, api_key="none", max_retries=0) as raw:
        yield raw if request.param == "raw" else sr.wrap(raw)


def test_a_stream_read_to_its_end_is_whole(client: openai.OpenAI) -> None:
    """Text comes in pieces, one finish reason ends it, the usage closes it, and nothing comes
    after.
    """
    stream: Any = client.chat.completions.create(
        model="any",
        messages=MESSAGES,
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=64,
        seed=1,
        extra_body={"ignore_eos": True},
    )

    if isinstance(client, sr.StrictClient):  # a text that is cut is none of ours
        with pytest.raises(openai.LengthFinishReasonError):
            list(stream)
        return

    *chunks, last = stream
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices).strip()
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["length"]

    assert choices[-1].finish_reason
    assert (last.choices, last.usage.completion_tokens) == ([], 64)


def test_a_stream_closed_early_frees_its_slot(client: openai.OpenAI, llamacpp: str) -> None:
    """Closing ends the generation: the slot falls idle although there was more to write."""
    with client.chat.completions.create(
        model="any",
        messages=MESSAGES,
        stream=True,
        max_tokens=LONG,
        extra_body={"ignore_eos": True},
    ) as stream:
        next(iter(stream))
        assert slot(llamacpp)["is_processing"]

    assert_freed_unfinished(llamacpp)


def test_an_async_stream_closed_early_frees_its_slot(llamacpp: str) -> None:
    """The async twin frees the slot in the same way."""

    async def main() -> None:
        async with (
            openai.AsyncOpenAI(base_url=llamacpp, api_key="none", max_retries=0) as client,
            await client.chat.completions.create(
                model="any",
                messages=MESSAGES,
                stream=True,
                max_tokens=LONG,
                extra_body={"ignore_eos": True},
            ) as stream,
        ):
            await anext(aiter(stream))
            assert slot(llamacpp)["is_processing"]

    asyncio.run(main())
    assert_freed_unfinished(llamacpp)


def test_a_early_stop_frees_the_slot(llamacpp: str) -> None:
    """Noise that is no JSON is stopped at its first character: the server writes no more of what is
    refused.
    """
    with openai.OpenAI(base_url=llamacpp, api_key="none", max_retries=0) as raw:
        client = sr.wrap(
            raw, channel="text", policy=sr.RetryPolicy(max_retries=0, transport_retries=0)
        )
        with pytest.raises(sr.ReplyRejected) as refused:
            list(
                client.chat.completions.create(
                    model="any",
                    messages=MESSAGES,
                    stream=True,
                    max_tokens=LONG,
                    extra_body={"ignore_eos": True},
                )
            )

    (attempt,) = refused.value.attempts
    assert attempt.stopped_early is not None
    assert attempt.stopped_early.at < 64
    assert_freed_unfinished(llamacpp)


def assert_freed_unfinished(base_url: str) -> None:
    """The slot is idle after so many looks, and says itself that its text was not at an end."""
    freed = next(
        (seen for seen in (slot(base_url) for _ in range(POLLS)) if not seen["is_processing"]), None
    )
    assert freed is not None
    assert freed["next_token"][0]["has_next_token"]


def slot(base_url: str) -> dict[str, Any]:
    """What the server tells of the slot that had, or has, the long request."""
    slots: list[dict[str, Any]] = http.get(f"{base_url.removesuffix('/v1')}/slots").json()
    [ours] = [slot for slot in slots if slot.get("params", {}).get("n_predict") == LONG]
    return ours
