"""The openai SDK by itself, streamed.

The deltas of a call are put together by their index, and the call is then run as an unstreamed one.
"""

from __future__ import annotations

from openai import OpenAI

from probes.job import MODEL, QUESTION, TIMEOUT, Shop
from probes.raw_sdk import TOOL, run


def app(base_url: str) -> object:
    """Ask in a stream."""
    return searched(OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT))


def searched(client: OpenAI) -> object:
    """Read one stream to its end and run what was called; without a call the text is the answer."""
    stream = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": QUESTION}], tools=[TOOL], stream=True
    )
    text = ""
    calls: dict[int, dict[str, str]] = {}

    for chunk in stream:
        if not chunk.choices:
            continue

        delta = chunk.choices[0].delta
        text += delta.content or ""

        for part in delta.tool_calls or []:
            call = calls.setdefault(part.index, {"name": "", "arguments": ""})
            if part.function:
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""

    if not calls:
        return {"answer": text}

    shop = Shop()
    for call in calls.values():
        run(shop, call["name"], call["arguments"])

    return shop.accepted()
