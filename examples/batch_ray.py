"""Label rows on a Ray cluster: pass the row function to ``map_batches``.

If a node dies, Ray repeats its unfinished batches on another node, and each
row is in the result once. Set RAY_ADDRESS to a cluster's address; without it,
the program starts a cluster on this machine.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from typing import Literal

import ray
import ray.data
from openai import AsyncOpenAI
from pydantic import BaseModel

import strictreply as sr
from strictreply.testing import ScriptedModel, faults, ok


class Label(BaseModel):
    """The topic of a customer's message."""

    topic: Literal["delivery", "price", "other"]


def labelled(messages: ray.data.Dataset, base_url: str) -> ray.data.Dataset:
    """Label every message of a dataset.

    ``base_url`` is the address of the model; every node must reach it.
    """

    def client() -> AsyncOpenAI:  # called on the nodes, where the key is
        return AsyncOpenAI(
            base_url=base_url, api_key=os.environ.get("MODEL_KEY", "none")
        )

    ask = sr.batch.rows(
        sr.Contract(answer=Label),
        model="any",
        messages="text",
        client=client,
        concurrency=32,
    )
    # a task mostly waits for the network, so half a CPU is enough
    return messages.map_batches(ask, batch_size=20, num_cpus=0.5)


def main() -> None:
    """Label a hundred messages; the model's first reply is invalid."""
    model = ScriptedModel(
        faults.missing_required(Label, place="json"),
        then=ok.answer({"topic": "price"}),
    )
    with (
        model.serve() as server,
        ray.init(
            num_cpus=1, include_dashboard=False, logging_level=logging.ERROR
        ),
    ):
        text = "What does tea cost?"
        items = [{"id": number, "text": text} for number in range(100)]
        messages = ray.data.from_items(items)
        rows = labelled(messages, server.base_url).take_all()

    counts = Counter(row["status"] for row in rows)
    print(len(rows), "rows:", dict(sorted(counts.items())))
    shown = {name: rows[0][name] for name in ("id", "reply", "attempts")}
    print("first row:", shown)


if __name__ == "__main__":
    main()
