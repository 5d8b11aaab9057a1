"""What the proxy answers in the place of a reply that is not valid."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from strictreply import CallFailed, ContractError, ReplyRejected, TransportFailed
from strictreply.core.arguments import without_exception


class ReplyWithheld(Exception):
    """What the proxy answers in the place of a reply, in the form of OpenAI's errors.

    ``type`` is ``invalid_request_error`` (status 400: the request asks for what cannot be
    guaranteed), ``reply_rejected`` or ``reply_halted`` (422, which no SDK repeats), or
    ``reply_failed`` (502). ``code`` is the reason, such as ``retries``. The message holds no word
    of the model. By ``/v1/messages`` the proxy writes it in the form of Anthropic's errors, whose
    type LiteLLM chooses by the status.
    """

    param: None = None

    def __init__(self, message: str, *, kind: str, code: str, status_code: int) -> None:
        super().__init__(message)
        self.message: str = message
        self.type: str = kind
        self.code: str = code
        self.status_code: int = status_code


@contextmanager
def in_the_proxys_form() -> Generator[None]:
    """Raise this library's errors in the form in which the proxy answers.

    What the proxy itself raised stays as it is.
    """
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
