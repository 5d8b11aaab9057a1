"""A model that gives a good reply to every request, and remembers what the app expects."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

from strictreply import ContractError
from strictreply.core import JSONObject
from strictreply.testing._probing.client_verdicts import question
from strictreply.testing._scripts import Demand, DemandHints, abridged
from strictreply.testing._wire import CallIds, Served

MAX_GIVEN = 400  # characters of a good reply


class GoodModel:
    """Gives a good reply to every request, and keeps the first request as ``demand``.

    ``given`` is the last reply in short, ``trouble`` is why no good reply could be made.
    """

    def __init__(self, hints: DemandHints) -> None:
        self.hints = hints
        self._lock = threading.Lock()
        self._ids = CallIds()
        self.demand: Demand | None = None
        self.given = ""
        self.asked: Counter[str] = Counter()
        self.trouble: ContractError | ValueError | None = None

    def __call__(self, request: JSONObject) -> Served:
        demand = Demand(request, self.hints)
        try:
            served = demand.good()
        except (ContractError, ValueError) as error:
            self.trouble = error
            raise

        with self._lock:
            self.demand = self.demand or demand
            self.given = _given(served)
            self.asked[question(request)] += 1

        return self._ids.fresh(served, request)


def _given(served: Any) -> str:
    """Return a good reply as an app reads it: its calls, or its text."""
    message = served["choices"][0]["message"]
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    calls = [f"{function['name']}({function['arguments']})" for function in functions]
    words = ", ".join(calls) if calls else f"the text {json.dumps(message['content'])}"
    return abridged(words, MAX_GIVEN)
