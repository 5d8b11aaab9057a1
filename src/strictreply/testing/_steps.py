"""One step of a script: what is served for one request, and how to say so again in a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from strictreply.testing._targets import ReplyPlace
from strictreply.testing._wire import Served
from strictreply.values._json import JSON, Channel

CANARY = "zq7x"
"""Part of everything that a fault has the model invent freely: it can come from nowhere else."""

API_DEFAULTS: Mapping[str, JSON] = {"parallel_tool_calls": True, "tool_choice": "auto", "stream": False}
"""What a request means where it does not say."""


class Kind(StrEnum):
    """Where a fault sits."""

    JSON = "json"  # the text of the arguments or the answer is not strict JSON
    SHAPE = "shape"  # JSON, but not of the form a reply has
    TOOL = "tool"  # which tools are called, how often, under which ids
    ARGS = "args"  # the arguments or the answer break their schema
    ENVELOPE = "envelope"  # the response around the reply
    FINISH = "finish"  # how the reply ended
    TRANSPORT = "transport"  # the connection
    HTTP = "http"  # the HTTP response
    STREAM = "stream"  # server-sent events

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"{value!r} is not a kind of fault; the kinds are {', '.join(cls)}")


@dataclass(frozen=True, slots=True)
class Step:
    """What is served for one request.

    ``source`` is the Python expression that makes the step again. ``invented`` are the texts that only the model
    wrote: none of them may come back in a prompt, other than in its own turn. ``after`` is served instead where a
    request ends with the result of this step's call; None where nothing is.
    """

    name: str
    served: Served = field(repr=False)
    source: str
    invented: tuple[str, ...] = field(default=(), repr=False)
    after: Step | None = field(default=None, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Fault(Step):
    """A step that no strict gate lets through.

    ``code`` is what such a gate says: an issue's code (``args.type``), or for what is no reply at all the kind of
    failure (``rate_limit``, ``connection``; see :class:`strictreply.retry._failures.Failure`). ``at`` is the JSON
    Pointer of the spoiled place in the arguments or the answer, empty for the whole. ``needs`` holds the keywords of a
    request under which alone it is a fault, such as ``{"tool_choice": "required"}``. ``clean`` is the good completion
    that was spoiled, None of a recorded reply.
    """

    kind: Kind = Kind.JSON
    code: str = ""
    place: ReplyPlace = "call"
    at: str = ""
    needs: Mapping[str, JSON] = field(default_factory=dict[str, JSON], repr=False)
    clean: JSON = field(default=None, repr=False)

    @property
    def channel(self) -> Channel:
        """The contract's channel that the faulty reply belongs to."""
        return "text" if self.place == "union" else "native"

    @property
    def id(self) -> str:
        """A name for a test's parameter: ``wrong_type`` or ``wrong_type[/limit]``."""
        return f"{self.name}[{self.at}]" if self.at else self.name
