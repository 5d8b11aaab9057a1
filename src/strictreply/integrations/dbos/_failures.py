"""What failed a durable run, as JSON that any process can read: no exception is ever pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from strictreply.pipeline._invoke_result import InvokeFailed
from strictreply.pipeline._values import Value
from strictreply.values._errors import StrictReplyError
from strictreply.values._issues import printable, printable_lines
from strictreply.values._json import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Value):
    """An exception: the name of its type, its code or reason, its words, and what it tells of itself."""

    kind: str
    code: str
    message: str
    details: JSONObject

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Tell of an exception; one that is not ours may say anything, and only its type is told."""
        kind = type(error).__name__
        if isinstance(error, DurableRunFailed):
            return error.failure
        if not isinstance(error, StrictReplyError):
            return cls(kind=kind, code="", message=f"{kind} was raised; its words stay in the worker's log", details={})
        details = error.to_dict()
        if isinstance(error, InvokeFailed):
            details |= {"errors": [one.to_dict() for one in error.errors], "step": error.step}
        code = getattr(error, "code", None) or getattr(error, "reason", "")
        return cls(kind=kind, code=str(code), message=str(error), details=details)


class DurableRunFailed(StrictReplyError):
    """A durable run failed; what a plain run would have raised is told by fields.

    ``kind`` is the type's name (``ReplyRejected``, ``TransportFailed``, ``IterationsExceeded``, …), ``code`` its stable
    word, ``details`` its ``to_dict()``. :meth:`DurableRun.retry` goes on from the step that failed.
    """

    def __init__(self, failure: Failure) -> None:
        """Carry what is told of the exception."""
        super().__init__(printable_lines(f"the run failed with {printable(failure.kind)}: {failure.message}"))
        self.failure = failure
        self.kind = failure.kind
        self.code = failure.code
        self.details: dict[str, Any] = failure.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Give the error as JSON-safe values."""
        return super().to_dict() | {"failure": self.failure.to_dict()}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by fields."""
        return type(self), (self.failure,)
