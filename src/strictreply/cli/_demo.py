"""``strictreply demo``: a short program, and what happens to three invalid replies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from rich.console import Console
from rich.text import Text

from strictreply import Attempt, CallFailed
from strictreply.cli._attempts import described
from strictreply.cli._terminal import console
from strictreply.core import JSONObject
from strictreply.core.text import printable_lines
from strictreply.testing import assistant, completion, native_call
from strictreply.testing.mounting import openai_client
from strictreply.wires import wire_named

PROGRAM = '''
from openai import OpenAI
import strictreply as sr

@sr.tool
def refund(order: int, amount: float) -> str:
    """Refund an order."""
    return f"order {order}: {amount:.2f} EUR"

client = sr.wrap(OpenAI(), tools=[refund], parallel=True)
reply = client.reply(model="gpt-5", messages=question)
print([refund(call.args.order, call.args.amount) for call in reply.calls])
'''
"""What is shown, and what runs: its ``OpenAI()`` is the real SDK with a model in memory."""

GOOD = '{"order": 1042, "amount": 29.9}'
OTHER = '{"order": 1077, "amount": 12.5}'
EXTRA_KEY = '{"order": 1077, "amount": 12.5, "note": "late"}'


@dataclass(frozen=True, slots=True)
class Story:
    """A title, and the replies that the model gives."""

    title: str
    replies: tuple[tuple[str, ...], ...]
    """The arguments of the calls in each reply; the last reply is repeated."""


STORIES = (
    Story("A wrong call is retried", (('{"order": "1042", "amount": 29.9}',), (GOOD,))),
    Story("Of two calls, only the wrong one is retried", ((GOOD, EXTRA_KEY), (OTHER,))),
    Story("A call that stays wrong raises an error; nothing runs", (('{"order": 1042}',),)),
)

_STYLES = {
    "reply": "default",
    "issue": "yellow",
    "sent": "cyan",
    "ran": "green",
    "raised": "red",
}
_LEGEND = "reply: the model's · issue: what is wrong · sent: correction · ran: your code"
_INDENT = 10  # columns before the words: three spaces and a label
_VERDICT_COLUMN = 68  # where a line says whether a call was kept


def tell(screen: Console | None = None) -> None:
    """Show the program, then the stories one by one.

    They take at most 42 lines of 80 columns.
    """
    screen = screen or console()
    for line in PROGRAM.strip().splitlines():
        _print(screen, Text(f"    {line}" if line else ""))

    _print(screen, Text(f"\n{_LEGEND}", style="italic"))
    for number, story in enumerate(STORIES, 1):
        _tell_story(screen, number, story)

    command = ("strictreply probe --app yourmodule:function", "bold")
    _print(screen, Text.assemble("\nTry it on your own app: ", command))


def _tell_story(screen: Console, number: int, story: Story) -> None:
    """Run the program's client through a story, and show what happens."""
    client, refund = _program(story)
    ran: list[str] = []
    try:
        exchange = client.exchange(model="gpt-5", messages="Refund it.")
        attempts = exchange.attempts
        ran = [refund(call.args.order, call.args.amount) for call in exchange.reply.calls]
        raised = None
    except CallFailed as error:
        attempts = error.attempts
        raised = f"{type(error).__name__} after {len(attempts)} requests; see error.explain()"

    _print(screen, Text(f"\n{number}  {story.title}", style="bold"))
    first = attempts[0]
    _say(screen, "reply", *_calls_of(first))
    for issue in first.issues:
        _say(screen, "issue", described(issue, first.raw, first.api))

    _say(screen, "sent", *(attempts[1].correction or "").splitlines())
    if raised is None:
        _say(screen, "reply", *_calls_of(attempts[-1]))
        _say(screen, "ran", *ran)
    else:
        _say(screen, "raised", raised)


def _program(story: Story) -> tuple[Any, Any]:
    """Run the program as far as its client, with a model that tells the story.

    Return the client and the tool.
    """
    served = chain(story.replies, repeat(story.replies[-1]))

    def model(_: JSONObject) -> JSONObject:
        texts = enumerate(next(served))
        calls = [native_call("refund", text, f"call_{number}") for number, text in texts]
        return completion(assistant(calls=list(calls)), usage=(120, 20 * len(calls)))

    names: dict[str, Any] = {"OpenAI": lambda: openai_client(model)}
    source = PROGRAM.replace("from openai import OpenAI\n", "")
    # the call is made by `exchange`, which also returns the attempts
    source = source[: source.index("reply = ")]
    exec(source, names)  # noqa: S102 - our own text: what is shown is what runs
    return names["client"], names["refund"]


def _calls_of(attempt: Attempt) -> Iterator[str]:
    """Give the calls of a reply; with several, each says whether it was kept."""
    draft = wire_named(attempt.api).draft_in(attempt.raw)
    calls = draft.calls if draft is not None else ()
    for index, call in enumerate(calls):
        shown = f"{call.name}({call.arguments})"
        if len(calls) == 1:
            yield shown
            continue

        is_wrong = any(issue.path.startswith(f"/tool_calls/{index}/") for issue in attempt.issues)
        width = _VERDICT_COLUMN - _INDENT
        yield f"{shown:<{width}}{'rejected' if is_wrong else 'kept'}"


def _say(screen: Console, label: str, *lines: str) -> None:
    """Print lines beside their label; a long one is wrapped under itself."""
    lead = f"   {label}".ljust(_INDENT)
    for line in lines:
        text = Text(printable_lines(line), style=_STYLES[label])
        for part in text.wrap(screen, screen.width - _INDENT):
            part.rstrip()
            _print(screen, Text.assemble((lead, "dim"), part))
            lead = " " * _INDENT


def _print(screen: Console, text: Text) -> None:
    screen.print(text, no_wrap=True, overflow="ignore", crop=False)
