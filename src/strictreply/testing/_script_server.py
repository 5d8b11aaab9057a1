"""A loopback server whose script is set over HTTP, for tests in any language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from strictreply.testing._control import ScriptControl
from strictreply.testing._given import given_in
from strictreply.testing._probing.good_model import GoodModel
from strictreply.testing._script_form import (
    EXAMPLE_SCRIPT,
    GOOD,
    PlannedScript,
    planned_script,
)
from strictreply.testing._scripts import DemandHints
from strictreply.testing._server import LoopbackServer


class ScriptServer(LoopbackServer):
    """Serves valid replies on loopback, and the steps that a test sets over HTTP.

    - ``replies`` are served to the first requests, one each. Each is the body of a response as
      JSON, a stream of events, or else the text of a message. Bytes that are not UTF-8 are a body.
    - ``status`` is the HTTP status of the replies; None for 200.
    - ``script`` is served instead: an object with ``steps`` and ``then``, such as
      :func:`read_script` returns.

    The other parameters are those of :class:`LoopbackServer`.

    Raises ValueError for a wrong script or status, for a script together with replies, and the
    errors of :class:`LoopbackServer`.
    """

    example: ClassVar[str] = EXAMPLE_SCRIPT
    """A script for a POST to ``/script``."""

    def __init__(
        self,
        replies: Iterable[str | bytes] = (),
        *,
        script: Mapping[str, object] | None = None,
        status: int | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        log: Callable[[str], None] | None = None,
        patience: float = 30.0,
    ) -> None:
        planned = PlannedScript(tuple(given_in(reply, status) for reply in replies), GOOD)
        if script is not None:
            if planned.steps or status is not None:
                raise ValueError("pass replies or a script, not both; a step has its own status")

            planned = planned_script({**script})

        super().__init__(
            GoodModel(DemandHints()),
            host=host,
            port=port,
            log=log,
            patience=patience,
            control=ScriptControl(script=planned, log=log),
        )
