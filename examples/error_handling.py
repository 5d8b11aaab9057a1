"""Handle the four kinds of failure.

Tell them apart by class and by ``reason``, never by their text.
"""

from __future__ import annotations

from typing import Literal

from openai import OpenAI
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel

import strictreply as sr
from strictreply.testing import LoopbackServer


@sr.tool
def create_refund(
    order: int, reason: Literal["late", "broken", "wrong_item"], amount: float
) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} EUR for order {order} ({reason})"


def ask(base_url: str, question: str, policy: sr.RetryPolicy) -> None:
    """Ask one question, and print the outcome."""
    openai = OpenAI(base_url=base_url, api_key="none")
    messages = [{"role": "user", "content": question}]
    try:
        with sr.wrap(openai, tools=[create_refund], policy=policy) as client:
            reply = client.reply(model="unreliable-1", messages=messages)
            print("reply:", reply)
    except sr.ReplyRejected as error:
        # retries exhausted: report it to the owner of the prompt
        issues = [one for each in error.attempts for one in each.issues]
        codes = sorted({issue.code for issue in issues})
        count = len(error.attempts)
        print(f"rejected ({error.reason}) after {count} attempts:", *codes)
    except sr.ReplyHalted as error:
        # refusal, content filter, deadline, budget: a retry would not help
        tokens = error.usage.total_tokens
        print(f"halted ({error.reason}) after {tokens} tokens")
    except sr.TransportFailed as error:
        # the network or the server failed: wait, or use another server
        print(
            f"transport failed ({error.reason}), "
            f"HTTP status {error.status_code}, "
            f"retry after: {error.retry_after}"
        )


def main() -> None:
    """Show a corrected reply, and each kind of failure."""
    try:
        sr.Contract(tools=[create_refund, create_refund])
    except sr.ContractError as error:
        # a bug in this program, raised before anything is sent
        print("wrong declaration:", error)

    patient = sr.RetryPolicy(max_retries=2)
    hasty = sr.RetryPolicy(max_tokens_total=100)
    alone = sr.RetryPolicy(transport_retries=0)
    broken = "Order 1042 arrived broken: refund 29.90 EUR."
    wrong = "Order 1099 was the wrong item: refund 8.00 EUR."

    model = UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)
    with LoopbackServer(model) as server:
        ask(server.base_url, broken, patient)
        ask(server.base_url, wrong, patient)
        ask(server.base_url, wrong, hasty)

    # the server is gone
    ask(server.base_url, "Is anybody there?", alone)


if __name__ == "__main__":
    main()
