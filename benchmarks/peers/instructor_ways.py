"""instructor: ``from_openai`` in the mode of tools.

With several tools, its mode of parallel ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Union

import instructor
from cases import Ask, Wire

from peers import ACall, Call, Peer


class Instructor(Peer):
    """``create(response_model=…)``."""

    def _made(self, ask: Ask) -> tuple[Any, dict[str, Any]]:
        """Return the mode and the keywords of a call."""
        named = {key: value for key, value in ask.keywords.items() if key != "tool_choice"}
        keywords = {**named, "messages": list(ask.messages), "max_retries": ask.attempts - 1}
        if not ask.further:
            return instructor.Mode.TOOLS, {**keywords, "response_model": ask.tool}
        union: Any = Union[tuple(ask.tools)]  # noqa: UP007 - made from a list
        return instructor.Mode.PARALLEL_TOOLS, {**keywords, "response_model": Iterable[union]}

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Create."""
        mode, keywords = self._made(ask)
        create = instructor.from_openai(wire.client(), mode=mode).chat.completions.create
        if ask.further:
            return lambda: next(iter(create(**keywords)))
        return lambda: create(**keywords)

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Create on an event loop."""
        mode, keywords = self._made(ask)
        create = instructor.from_openai(wire.aclient(), mode=mode).chat.completions.create
        return lambda: create(**keywords)

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Follow ``create_partial`` to its last model."""
        mode, keywords = self._made(ask)
        client = instructor.from_openai(wire.aclient(), mode=mode)

        async def call() -> Any:
            last = None
            async for given in client.chat.completions.create_partial(**keywords):
                last = given
            return last

        return call


PEERS = [Instructor("instructor")]
IMPORTS = "import instructor; instructor.from_openai"
DISTRIBUTIONS = ["instructor", "openai", "pydantic"]
