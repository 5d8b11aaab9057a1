"""The openai SDK in strictreply: the typed reply, with the default policy."""

from __future__ import annotations

from openai import OpenAI

import strictreply as sr
from probes.job import MODEL, QUESTION, TIMEOUT, Shop


def replied(openai: OpenAI, policy: sr.RetryPolicy | None = None) -> object:
    """Ask for a reply that fits and run what it calls; without a call the text is the answer."""
    shop = Shop()
    client = sr.wrap(openai, tools=[shop.search], policy=policy)
    reply = client.reply(model=MODEL, messages=[{"role": "user", "content": QUESTION}])
    if isinstance(reply, sr.DirectAnswer):
        return {"answer": reply.answer}

    calls = reply.calls if isinstance(reply, sr.ToolCalls) else (reply,)
    for call in calls:
        shop.search(call.args.query, call.args.limit)

    return shop.accepted()


def app(base_url: str) -> object:
    """Ask with the default policy."""
    return replied(OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT))
