"""A tool loop over a scripted client, sync or async behind one face, with tools of every kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import strictreply as sr
from strictreply.loop.invoke_result import InvokeCode
from support.scripted import SCHEMA, USER, AsyncClient, Client, JSONObject, Step, call, completion

DONE = completion("done")
NO_RETRIES = sr.RetryPolicy(max_retries=0, transport_retries=0)
LOCATE = sr.Tool.from_json_schema("locate", SCHEMA)
"""A tool without a function: the client runs it."""

PATIENCE = 30.0
"""How long a test waits for what is about to happen anyway, in seconds; nothing waits for it to
pass.
"""


class Loop:
    """One wrapped scripted client; ``run`` takes a turn to its end, whichever twin it is."""

    def __init__(
        self,
        *steps: Step,
        tools: Sequence[Any],
        asynchronous: bool = False,
        store: Any = None,
        **declared: Any,
    ) -> None:
        """Wrap a client that gives ``steps``.

        Parallel calls are allowed, and nothing is asked twice.
        """
        self.asynchronous = asynchronous
        self.store = store
        options = {"parallel": declared.get("channel") != "text", "policy": NO_RETRIES, **declared}
        fake = AsyncClient(*steps) if asynchronous else Client(*steps)
        self.client: Any = sr.wrap(fake, tools=list(tools), **options)
        self.script = fake.script

    def run(self, messages: Any = None, **keywords: Any) -> sr.Run:
        """Run or go on; without anything to go on with, the user's words of these tests are run."""
        opening = keywords.keys() & {"continuation", "after"}
        given = {"model": "m", "sessions": self.store, **keywords}
        said = USER if messages is None and not opening else messages
        if self.asynchronous:
            return asyncio.run(sr.arun(self.client, said, **given))
        return sr.run(self.client, said, **given)

    @property
    def asks(self) -> int:
        """How often the model was asked."""
        return len(self.script.requests)


def spy(name: str, ran: list[str], **options: Any) -> sr.Tool:
    """Declare a tool that keeps every query it ran with, and tells its name and the query."""

    def run(query: str) -> str:
        """Run."""
        ran.append(query)
        return f"{name} {query}"

    return sr.Tool.from_function(run, name=name, **options)


def asking(*queries: str, tool: str = "search", **ids: str) -> JSONObject:
    """Return a reply that calls one tool with each query.

    The call's id is the query unless ``ids`` maps it.
    """
    return completion(
        calls=[call(tool, {"query": query}, ids.get(query, query)) for query in queries]
    )


def told(run: sr.Run) -> list[tuple[str, Any]]:
    """Return the results that the model received, by the ids of their calls.

    They are parsed where they are JSON.
    """
    return [
        (turn["tool_call_id"], read(turn["content"]))
        for turn in run.transcript
        if turn["role"] == "tool"
    ]


def read(text: str) -> Any:
    """Read a text as JSON where it is some."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def codes(error: sr.InvokeFailed) -> list[InvokeCode]:
    """Return the codes of a failure in order."""
    return [one.code for one in error.errors]


def ids(run: sr.Run) -> list[str]:
    """Return the ids of the pending calls."""
    return [pending.tool_call_id for pending in run.pending]


Opened = Callable[..., Loop]
