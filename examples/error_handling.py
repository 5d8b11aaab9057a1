"""Handle what can go wrong: four kinds of failure, told apart by class and by stable words, never by text."""

from __future__ import annotations

from typing import Literal

from openai import OpenAI

import strictreply as sr
from strictreply.testing import LoopbackServer
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.testing.unreliable import UnreliableModel


@sr.tool
def create_refund(
    order: int, reason: Literal["late", "broken", "wrong_item"], amount: float
) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} EUR for order {order} ({reason})"


def ask(base_url: str, question: str, policy: sr.RetryPolicy) -> None:
    """Ask one question, and print its outcome."""
    try:
        with sr.wrap(
            OpenAI(base_url=base_url, api_key="none"), tools=[create_refund], policy=policy
        ) as client:
            print(
                "reply:",
                client.reply(
                    model="unreliable-1", messages=[{"role": "user", "content": question}]
                ),
            )
    except sr.ReplyRejected as error:  # the retries are spent: show it to whoever owns the prompt
        codes = sorted({issue.code for attempt in error.attempts for issue in attempt.issues})
        print(f"rejected ({error.reason}) after {len(error.attempts)} attempts:", *codes)
    except (
        sr.ReplyHalted
    ) as error:  # refusal, content filter, deadline, budget: another ask would not help
        print(f"halted ({error.reason}) after {error.usage.total_tokens} tokens")
    except sr.TransportFailed as error:  # the network or the server: wait, or go elsewhere
        print(
            f"transport failed ({error.reason}), HTTP status {error.status_code}, asked to wait: {error.retry_after}"
        )


def main() -> None:
    """Show a corrected reply, one that stays wrong, a spent budget, and a missing server."""
    try:
        sr.Contract(tools=[create_refund, create_refund])
    except (
        sr.ContractError
    ) as error:  # a bug in this program: raised while declaring, before anything is sent
        print("declared wrongly:", error)

    patient = sr.RetryPolicy(max_retries=2)
    hasty = sr.RetryPolicy(max_tokens_total=100)

    with LoopbackServer(UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)) as server:
        ask(server.base_url, "Order 1042 arrived broken: refund 29.90 EUR.", patient)
        ask(server.base_url, "Order 1099 was the wrong item: refund 8.00 EUR.", patient)
        ask(server.base_url, "Order 1099 was the wrong item: refund 8.00 EUR.", hasty)

    ask(server.base_url, "Is anybody there?", sr.RetryPolicy(transport_retries=0))


if __name__ == "__main__":
    main()
