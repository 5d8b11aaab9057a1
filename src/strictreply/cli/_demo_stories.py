"""``strictreply demo``: one short program, and what becomes of three replies that do not fit. No key, no network."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import strictreply as sr
from strictreply.cli._terminal import console, described, excerpt
from strictreply.testing._wire import Served, assistant, completion, native_call
from strictreply.testing.mounting import openai_client
from strictreply.values._attempts import Attempt, total_usage
from strictreply.values._issues import printable
from strictreply.values._json import JSONObject

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
"""What is shown, and what runs: its ``OpenAI()`` is the real SDK, over a model in memory."""

GOOD, OTHER = '{"order": 1042, "amount": 29.9}', '{"order": 1077, "amount": 12.5}'
NOTED = '{"order": 1077, "amount": 12.5, "note": "late"}'
STORIES: tuple[tuple[str, str, tuple[tuple[str, ...], ...]], ...] = (
    ("mended", "A wrong call is asked for again", (('{"order": "1042", "amount": 29.9}',), (GOOD,))),
    ("kept and mended", "Of two calls only the wrong one is asked for again", ((GOOD, NOTED), (OTHER,))),
    ("refused", "What stays wrong ends in an exception, and runs nothing", (('{"order": 1042}',),)),
)
"""The outcome, what it shows, and the arguments of the calls in each reply; the last reply stays."""

_STYLES = {"came": "default", "wrong": "yellow", "asked": "cyan", "ran": "green", "raised": "red"}
_MEANINGS = "came: from the model · wrong: what misfits · asked: what it is told · ran: code"
_NEXT = "strictreply probe --app yourmodule:function"


class Model:
    """A model that gives the replies of one story, and then its last again."""

    def __init__(self, replies: tuple[tuple[str, ...], ...]) -> None:
        self._left = list(replies)

    def __call__(self, _: JSONObject) -> Served:
        arguments = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        calls = [native_call("refund", text, f"call_{number}") for number, text in enumerate(arguments)]
        return completion(assistant(calls=list(calls)), usage=(120, 20 * len(calls)))


def tell(screen: Console | None = None) -> None:
    """Show the program, the stories one by one, and a table of them: at most 40 lines of 80 columns."""
    screen = screen or console()
    for line in PROGRAM.strip().splitlines():
        _line(screen, Text(f"    {line}" if line else ""))
    _line(screen, Text(f"\n{_MEANINGS}", style="italic"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("story", "outcome", "asks", "what was wrong", "tokens", "ran"):
        table.add_column(name, no_wrap=True, justify="right" if name in {"asks", "tokens", "ran"} else "left")
    for number, (outcome, title, replies) in enumerate(STORIES, 1):
        _line(screen, Text(f"{number}  {title}", style="bold"))
        attempts, ran = _told(screen, replies)
        wrong = dict.fromkeys(issue.code for attempt in attempts for issue in attempt.issues)
        tokens = str(total_usage(attempts).total_tokens)
        table.add_row(str(number), outcome, str(len(attempts)), ", ".join(wrong), tokens, str(len(ran)))
    screen.print()
    screen.print(table)
    _line(screen, Text.assemble("\nTry it on an app of yours: ", (_NEXT, "bold")))


def _told(screen: Console, replies: tuple[tuple[str, ...], ...]) -> tuple[tuple[Attempt, ...], list[str]]:
    """Run the program's client through one story, and show it; return the attempts, and what ran."""
    names: dict[str, Any] = {"OpenAI": lambda: openai_client(Model(replies))}
    source = PROGRAM.replace("from openai import OpenAI\n", "")
    source = source[: source.index("reply = ")]  # the call is made below, by the method that has its story, too
    exec(source, names)  # noqa: S102 - our own text: what is shown is what runs
    failed: sr.CallFailed | None = None
    reply: Any = None
    try:
        exchange = names["client"].exchange(model="gpt-5", messages="Refund it.")
        reply, attempts = exchange.reply, exchange.attempts
    except sr.CallFailed as error:
        failed, attempts = error, error.attempts
    _show(screen, attempts)
    ran = [] if reply is None else [names["refund"](call.args.order, call.args.amount) for call in reply.calls]
    if failed is None:
        _say(screen, "ran", " · ".join(ran))
    else:
        _say(screen, "raised", f"{type(failed).__name__} after {len(attempts)} asks; error.explain() has it all")
    return attempts, ran


def _show(screen: Console, attempts: tuple[Attempt, ...]) -> None:
    """Show the first attempt with its correction, and the last where it was accepted."""
    first, last = attempts[0], attempts[-1]
    _say(screen, "came", excerpt(first.raw))
    for issue in first.issues:
        _say(screen, "wrong", described(issue, first.raw))
    if len(attempts) > 1:
        _say(screen, "asked", " ".join((attempts[1].correction or "").split()))
    if last.accepted:
        _say(screen, "came", excerpt(last.raw))


def _say(screen: Console, label: str, words: str) -> None:
    _line(screen, Text.assemble((f"   {label:<7}", "dim"), (printable(words), _STYLES[label])))


def _line(screen: Console, text: Text) -> None:
    screen.print(text, no_wrap=True, overflow="ellipsis", crop=True)
