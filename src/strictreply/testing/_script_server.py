"""A model on loopback that is scripted over HTTP, for tests in any language."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from strictreply.testing._control import EXAMPLE_SCRIPT, ScriptControl
from strictreply.testing._given import given_in
from strictreply.testing._probing.good_model import GoodModel
from strictreply.testing._scripts import DemandHints
from strictreply.testing._server import LoopbackServer


class ScriptServer(LoopbackServer):
    """Serves valid replies on loopback, and what a test in any language asks for over HTTP.

    The first requests get the ``replies``, one each, under the HTTP ``status`` where one is given:
    the body of a response as JSON, a stream of events, or else the text of a message. The other
    parameters, and what is raised, are those of :class:`LoopbackServer`.
    """

    example: ClassVar[str] = EXAMPLE_SCRIPT
    """A script as it is set by a POST to ``/script``."""

    def __init__(
        self,
        replies: Iterable[str] = (),
        *,
        status: int | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        log: Callable[[str], None] | None = None,
        patience: float = 30.0,
    ) -> None:
        steps = [given_in(reply, status) for reply in replies]
        super().__init__(
            GoodModel(DemandHints()),
            host=host,
            port=port,
            log=log,
            patience=patience,
            control=ScriptControl(steps=steps),
        )
