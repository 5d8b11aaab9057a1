"""The errors that the proxy returns instead of an invalid reply."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from strictreply import CallFailed, ContractError, ReplyRejected, TransportFailed
from strictreply.core.arguments import without_exception


class ReplyWithheld(Exception):
    """The proxy returns an error instead of a reply, in the form of OpenAI's errors.

    ``type`` is ``invalid_request_error`` (status 400: replies to the request cannot be guaranteed),
    ``reply_rejected`` or ``reply_halted`` (422, which SDKs do not repeat), or ``reply_failed``
    (502). ``code`` is the reason, such as ``retries``. The message contains no text of the model.
    For ``/v1/messages`` the proxy writes it in the form of Anthropic's errors; LiteLLM chooses
    their type by the status.
    """

    param: None = None
    """Always None, as OpenAI's errors have it."""

    def __init__(self, message: str, *, kind: str, code: str, status_code: int) -> None:
        super().__init__(message)
        self.message: str = message
        """What happened, without a word of the model."""
        self.type: str = kind
        """The type of the error, such as ``reply_rejected``."""
        self.code: str = code
        """The reason, such as ``retries``."""
        self.status_code: int = status_code
        """The HTTP status."""


@contextmanager
def in_the_proxys_form() -> Generator[None]:
    """Raise this library's errors in the proxy's form; the proxy's own errors stay unchanged."""
    try:
        yield
    except (ContractError, CallFailed) as error:
        if isinstance(error, ContractError):
            kind = "invalid_request_error"
            code = "contract"
            status = 400
        elif isinstance(error, TransportFailed):
            if error.cause is not None:
                raise error.cause from None

            kind = "reply_failed"
            code = error.reason
            status = 502
        else:
            kind = "reply_rejected" if isinstance(error, ReplyRejected) else "reply_halted"
            code = error.reason
            status = 422

        message = without_exception(str(error))
        raise ReplyWithheld(message, kind=kind, code=code, status_code=status) from None
