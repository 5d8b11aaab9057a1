"""Apps to probe, without an SDK: each asks for a refund in its own careful or careless way."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import openai

import strictreply as sr

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "reason": {"enum": ["late", "broken"]},
    },
    "required": ["order", "reason"],
    "additionalProperties": False,
}
REFUND: dict[str, Any] = {
    "type": "function",
    "function": {"name": "refund", "parameters": PARAMETERS},
}
CONTRACT = sr.Contract(tools=[REFUND], parallel=True, dialects="strict")
TIMEOUT = 2.5
"""Seconds that an app waits for a server: far more than a good reply takes on a busy machine."""
QUESTION = {"role": "user", "content": "Refund order 7."}


class Refused(Exception):
    """The reply was bad: an exception made to say so."""


class Vouched(KeyError):
    """A built-in's child that its author calls clean."""


def ask(base_url: str, messages: list[Any], **more: Any) -> bytes:
    """Make one request; Refused when no HTTP 200 comes back."""
    parts = urlsplit(base_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT)

    body = json.dumps({"model": "m", "messages": messages, "tools": [REFUND], **more})
    try:
        connection.request("POST", f"{parts.path}/chat/completions", body)
        response = connection.getresponse()
        content = response.read(1_000_000)
    except (OSError, http.client.HTTPException) as error:
        raise Refused("no response") from error
    finally:
        connection.close()

    if response.status != http.client.OK:
        raise Refused("an error")

    return content


def judged(content: bytes) -> sr.Verdict:
    """Judge a whole completion.

    A bare message would be one for the contract, but is not one of the API.
    """
    if b'"choices"' not in content:
        raise Refused("no completion")
    return CONTRACT.check(content)


def strict(base_url: str) -> object:
    """Judge the whole reply before anything of it is used."""
    verdict = judged(ask(base_url, [QUESTION]))
    if isinstance(verdict, sr.Invalid):
        raise Refused("not by the contract")
    return verdict.reply.to_dict()


def retrying(base_url: str) -> object:
    """Ask three times, with the same words."""
    for _ in range(3):
        verdict = judged(ask(base_url, [QUESTION]))
        if isinstance(verdict, sr.Valid):
            return verdict.reply.to_dict()
    raise Refused("three times")


def careless(base_url: str) -> object:
    """Take what comes."""
    return arguments(json.loads(ask(base_url, [QUESTION])))


def leaking(base_url: str) -> object:
    """Repeat the model's own words to it, and ask again."""
    first = ask(base_url, [QUESTION])
    try:
        return arguments(json.loads(first))
    except (ValueError, TypeError, LookupError):
        again = [
            QUESTION,
            {"role": "user", "content": f"This was wrong: {first.decode(errors='replace')}"},
        ]
        return arguments(json.loads(ask(base_url, again)))


def arguments(completion: Any) -> object:
    """Read the arguments of the first call."""
    args = json.loads(completion["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
    return {"order": args["order"], "reason": args["reason"]}


def looping(base_url: str) -> object:
    """Report each bad call to the model in a tool turn, without a limit."""
    turns: list[Any] = [QUESTION]
    while True:
        content = ask(base_url, turns)
        verdict = judged(content)
        if isinstance(verdict, sr.Valid):
            return verdict.reply.to_dict()["args"]

        message = json.loads(content)["choices"][0]["message"]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "no"}
            for call in message["tool_calls"]
        ]
        turns += [message, *results]


def polite(base_url: str) -> object:
    """Apologise when no good call came."""
    try:
        return strict(base_url)
    except Refused:
        return {"answer": "Sorry."}


def hanging(base_url: str) -> object:
    """Do not come back when the reply is bad."""
    try:
        return strict(base_url)
    except Refused:
        threading.Event().wait(60)
        return None


def dying(base_url: str) -> object:
    """End the process when the reply is bad."""
    try:
        return strict(base_url)
    except Refused:
        os._exit(3)


async def asynchronous(base_url: str) -> object:
    """Do as ``strict`` does, in a coroutine."""
    return strict(base_url)


def streaming(base_url: str) -> Iterator[object]:
    """Yield the reply piece by piece."""
    yield strict(base_url)


async def asynchronous_stream(base_url: str) -> AsyncIterator[object]:
    """Yield the reply piece by piece, in a coroutine."""
    yield strict(base_url)


def from_environment() -> object:
    """Find the model where the environment says."""
    sys.stdout.write("an app may print what it likes\n")
    return strict(os.environ["OPENAI_BASE_URL"])


def never_asking(base_url: str) -> object:
    """Return without a request."""
    return base_url


def never_working(base_url: str) -> object:
    """Fail with good replies too."""
    ask(base_url, [QUESTION])
    raise Refused("it never works")


def silent(base_url: str) -> object:
    """Return None when the reply is bad."""
    try:
        return strict(base_url)
    except Refused:
        return None


def iterating(base_url: str) -> object:
    """Return the reply through an iterator that is no generator, as the SDK's streams are."""
    return map(strict, [base_url])


class AsynchronousPieces:
    """An async iterator that is no generator."""

    def __init__(self, base_url: str) -> None:
        """Ask later."""
        self._left = [base_url]

    def __aiter__(self) -> AsynchronousPieces:
        """Return itself."""
        return self

    async def __anext__(self) -> object:
        """Return the reply, once."""
        if not self._left:
            raise StopAsyncIteration
        return strict(self._left.pop())


def vouched(base_url: str) -> object:
    """Raise what only its author knows to be clean."""
    try:
        return strict(base_url)
    except Refused:
        raise Vouched from None


def crashing(base_url: str) -> object:
    """Raise a bare built-in."""
    try:
        return strict(base_url)
    except Refused:
        raise KeyError from None


def stuck(base_url: str) -> object:
    """Crash at the first bad reply, and hang at the second."""
    try:
        return strict(base_url)
    except Refused:
        if next(_bad_replies):
            threading.Event().wait(60)
        raise KeyError from None


_bad_replies = itertools.count()


def two_needed(base_url: str, other: str) -> object:
    """Take more than a probe can give."""
    return base_url + other


NOT_CALLABLE = 5


NOTIFY: dict[str, Any] = {
    "type": "function",
    "name": "notify",
    "parameters": {
        "type": "object",
        "properties": {"order": {"type": "integer"}, "urgent": {"type": "boolean"}},
        "required": ["order", "urgent"],
        "additionalProperties": False,
    },
    "strict": True,
}


def careless_by_responses(base_url: str) -> object:
    """Ask by the Responses API with the plain SDK.

    It reads a truth value as careless readers do.
    """
    with openai.OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT, max_retries=0) as client:
        response: Any = client.responses.create(model="m", input="Tell order 7.", tools=[NOTIFY])  # type: ignore[list-item]
    return [
        {"tool": "notify", "args": {"order": args["order"], "urgent": bool(args["urgent"])}}
        for item in response.output
        if item.type == "function_call"
        for args in [json.loads(item.arguments)]
    ]


def guarded_by_responses(base_url: str) -> object:
    """Do the same with a wrapped client."""
    with sr.wrap(openai.OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT)) as client:
        response: Any = client.responses.create(model="m", input="Tell order 7.", tools=[NOTIFY])  # type: ignore[list-item]
    (item,) = [item for item in response.output if item.type == "function_call"]
    return {"tool": "notify", "args": json.loads(item.arguments)}


def refund(order: int, reason: str) -> str:
    """Pay back, whatever the reason."""
    return f"{order}: {reason}"


def hasty(base_url: str) -> object:
    """Run each call as it comes, and judge the reply afterwards."""
    content = ask(base_url, [QUESTION])
    try:
        for call in json.loads(content)["choices"][0]["message"]["tool_calls"]:
            refund(**json.loads(call["function"]["arguments"]))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise Refused("no call") from error

    if not isinstance(judged(content), sr.Valid):
        raise Refused("a bad reply")

    return "done"


def storming(base_url: str) -> object:
    """Ask eight times in a row."""
    return _insisting(base_url, 8, 0.0)


def sleepy(base_url: str) -> object:
    """Ask three times, without a pause."""
    return _insisting(base_url, 3, 0.0)


def waiting(base_url: str) -> object:
    """Ask twice; between them it waits as long as a server may ask for, in a way of its own."""
    return _insisting(base_url, 2, 1.0)


def _insisting(base_url: str, times: int, seconds: float) -> object:
    for _ in range(times - 1):
        try:
            return strict(base_url)
        except Refused:
            threading.Event().wait(seconds)
    return strict(base_url)


def fanning(base_url: str) -> object:
    """Ask the same eight times at once, whatever comes, and take the first good one."""
    with ThreadPoolExecutor(8) as pool:
        replies = [pool.submit(strict, base_url) for _ in range(8)]
    return replies[0].result()


def looking_up(base_url: str) -> object:
    """Call a function of its own that is named as the tool, before it asks the model."""
    refund(1, "late")
    return strict(base_url)


def hasty_and_stuck(base_url: str) -> object:
    """Run each call as it comes, and never come back from a bad one."""
    try:
        return hasty(base_url)
    except Refused:
        return threading.Event().wait()


def hasty_and_leaking(base_url: str) -> object:
    """Run each call as it comes, and quote a bad one in the next prompt."""
    try:
        return hasty(base_url)
    except Refused:
        content = ask(base_url, [QUESTION]).decode()
        ask(base_url, [QUESTION, {"role": "user", "content": f"That was wrong: {content}"}])
        raise


def hopeful(base_url: str) -> object:
    """Return None whatever is wrong."""
    try:
        return strict(base_url)
    except Refused:
        return None


def obedient(base_url: str) -> object:
    """Ask as the SDK does: it waits as long as it is told to."""
    client = openai.OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT, max_retries=2)
    with client:
        try:
            reply = client.chat.completions.create(model="m", messages=[QUESTION], tools=[REFUND])  # type: ignore[list-item]
        except openai.OpenAIError as error:
            raise Refused("an error") from error

    if not isinstance(CONTRACT.check(reply), sr.Valid):
        raise Refused("a bad reply")

    return reply.choices[0].message.tool_calls


def trusting_stream(base_url: str) -> object:
    """Put a stream together, and look neither for its end nor for what ended it."""
    text = ask(base_url, [QUESTION], stream=True).decode("utf-8", "replace")
    found = re.findall(r'"arguments": ?"((?:[^"\\\\]|\\\\.)*)"', text)
    return "".join(found)


def guarded_agent(base_url: str) -> object:
    """Run the calls of a guarded stream, and ask again with their results until a text comes."""
    messages: list[Any] = [QUESTION]
    ran: list[object] = []
    policy = sr.RetryPolicy(max_retries=0, transport_retries=0)
    with openai.OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT) as source:
        client: Any = sr.wrap(source, tools=[REFUND], parallel=True, policy=policy)
        while True:
            with client.stream(model="m", messages=messages) as events:
                *_, _ = events
                reply = events.reply

            if isinstance(reply, sr.DirectAnswer):
                return ran

            calls = reply.calls if isinstance(reply, sr.ToolCalls) else (reply,)
            for call in calls:
                ran.append(call.args)
                function = {"name": call.tool, "arguments": json.dumps(call.args)}
                asked = {"id": call.id, "type": "function", "function": function}
                messages += [
                    {"role": "assistant", "content": None, "tool_calls": [asked]},
                    {"role": "tool", "tool_call_id": call.id, "content": "done"},
                ]


def pay_back(order: Any, reason: Any) -> str:
    """Pay back under a name that is not the tool's."""
    return f"paid {order} for {reason}"


def calls_in(content: bytes) -> list[Any]:
    """Read the calls of a completion, Refused when it has none."""
    try:
        return [
            (call, json.loads(call["function"]["arguments"]))
            for call in json.loads(content)["choices"][0]["message"]["tool_calls"]
        ]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise Refused("no call") from error


def hasty_by_another_name(base_url: str) -> object:
    """Run each call as it comes by a function of another name, and judge the reply afterwards."""
    content = ask(base_url, [QUESTION])
    for _, args in calls_in(content):
        pay_back(**args)

    if not isinstance(judged(content), sr.Valid):
        raise Refused("a bad reply")

    return "done"


def hasty_and_silent(base_url: str) -> object:
    """Do the same, and return None after a bad reply."""
    try:
        return hasty_by_another_name(base_url)
    except Refused:
        return None


LEDGER: list[Any] = []


def hasty_in_place(base_url: str) -> object:
    """Act on each call without a function of the app's, and judge the reply afterwards."""
    content = ask(base_url, [QUESTION])
    for _, args in calls_in(content):
        LEDGER.append(args)

    if not isinstance(judged(content), sr.Valid):
        raise Refused("a bad reply")

    return "done"


def hasty_lambda(base_url: str) -> object:
    """Act by a function without a name, and judge the reply afterwards."""
    handlers = {"refund": lambda **args: f"paid {args['order']}"}
    content = ask(base_url, [QUESTION])
    for call, args in calls_in(content):
        handlers.get(call["function"]["name"], handlers["refund"])(**args)

    if not isinstance(judged(content), sr.Valid):
        raise Refused("a bad reply")

    return "done"


def hasty_agent(base_url: str) -> object:
    """Act by another name, send each result back, and refuse when no text comes in three turns."""
    turns: list[Any] = [QUESTION]
    for _ in range(3):
        content = ask(base_url, turns)
        message = json.loads(content)["choices"][0]["message"]
        if not message.get("tool_calls"):
            return message["content"]

        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "paid"}
            for call, args in calls_in(content)
            if pay_back(args.get("order"), args.get("reason"))
        ]
        turns += [message, *results]
    raise Refused("three turns")


def careful_by_another_name(base_url: str) -> object:
    """Judge the reply, and run its calls by a function of another name."""
    content = ask(base_url, [QUESTION])
    if not isinstance(judged(content), sr.Valid):
        raise Refused("a bad reply")

    return [pay_back(**args) for _, args in calls_in(content)]


def failing_handler(base_url: str) -> object:
    """Read an argument that no declared parameter allows."""
    return [args["order_number"] for _, args in calls_in(ask(base_url, [QUESTION]))]
