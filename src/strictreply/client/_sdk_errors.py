"""Errors that are ours and the SDK's: programs that catch ``openai.RateLimitError`` go on to catch it."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from strictreply.client._sdk_responses import is_raw
from strictreply.client._transport import Sent, Transport
from strictreply.values._errors import CallFailed, ReplyHalted
from strictreply.values._issues import Remedy


def as_sdks_too(error: CallFailed, transport: Transport, last: Sent | None, raised: Exception | None) -> CallFailed:
    """Return the same error as an instance of what the SDK would have raised, with the fields of that.

    ``last`` is the response that came last, ``raised`` what came instead of one after it. An error of the transport is
    what the SDK did raise, and so is an error of the API's that says what became of the reply. A deadline is its
    ``APITimeoutError``, a content filter and a cut at the token limit what its ``parse`` raises, an exchange that was
    broken off its ``APIConnectionError``, and any other reply that was refused its ``APIResponseValidationError``; its
    ``response`` is None where another program read that, and returned a completion. Without an SDK behind the client
    it stays as it is.
    """
    client = transport.client
    sdk = (
        sys.modules.get("openai")
        if any(base.__module__ == "openai._base_client" for base in type(client).__mro__)
        else None
    )
    if sdk is None:
        return error
    is_deadline = isinstance(error, ReplyHalted) and error.reason == "deadline"
    is_cut = error.issues and all(issue.remedy is Remedy.SHORTEN for issue in error.issues)
    if raised is not None and isinstance(raised, sdk.OpenAIError) and not is_deadline and not is_cut:
        both = _both(error, type(raised), vars(raised))
        both.__cause__ = _underlying(raised)
        return both
    source = last.source if last is not None and is_raw(last.source) else None
    response = getattr(source, "http_response", None)
    request = getattr(response, "request", None) or _request(transport)
    if is_deadline:
        return _both(error, sdk.APITimeoutError, _told(error, request))
    if isinstance(error, ReplyHalted) and error.reason == "content_filter":
        return _both(error, sdk.ContentFilterFinishReasonError, {"completion": _completion(last, transport)})
    if raised is not None and not is_cut:
        return _both(error, sdk.APIConnectionError, _told(error, request))
    if last is None:
        return error
    if is_cut:
        return _both(error, sdk.LengthFinishReasonError, {"completion": _completion(last, transport)})
    fields = {
        "response": response,
        "status_code": getattr(response, "status_code", 200),
        "request_id": getattr(last.source, "_request_id" if response is None else "request_id", None),
    }
    return _both(error, sdk.APIResponseValidationError, _told(error, request, last.plain) | fields)


def _request(transport: Transport) -> Any:
    client = transport.client
    return client._client.build_request("POST", f"{client.base_url}{transport.wire.path}")  # noqa: SLF001


def _underlying(error: Exception) -> BaseException | None:
    """Return what the HTTP library raised, as the SDK shows it; not where it repeats what the server sent."""
    cause = error.__cause__
    return None if any("ProtocolError" in base.__name__ for base in type(cause).__mro__) else cause


def _completion(last: Sent | None, transport: Transport) -> Any:
    if last is None or not isinstance(last.plain, dict) or transport.wire.message_in(last.plain) is None:
        return None  # an error of the API's that says the same
    if last.is_stream:
        return transport.sdk_type().model_construct(**last.plain)
    return last.source.parse() if is_raw(last.source) else last.source


def _told(error: CallFailed, request: Any, body: Any = None) -> dict[str, Any]:
    message = str(error).partition("\n")[0]
    return {"message": message, "request": request, "body": body, "code": None, "param": None, "type": None}


def _both(error: CallFailed, kind: Any, fields: dict[str, Any]) -> CallFailed:
    ours: Any = type(error)
    both = _class_of(ours, kind)
    made: CallFailed = both.__new__(both)
    made.args = error.args
    made.__dict__ = {**fields, **vars(error), "_sdks": frozenset(fields) - vars(error).keys()}
    return made


@cache
def _class_of(ours: Any, sdks: Any) -> type[CallFailed]:
    def __reduce__(self: Any) -> Any:  # noqa: N807 - it becomes the method of this name
        # as ours alone: the SDK's fields hold live connections
        alone = ours.__new__(ours)
        alone.args = self.args
        alone.__dict__ = {name: value for name, value in vars(self).items() if name not in {*self._sdks, "_sdks"}}
        return alone.__reduce__()

    namespace: dict[str, Any] = {"__reduce__": __reduce__, "__doc__": ours.__doc__, "__module__": ours.__module__}
    namespace |= {"__str__": ours.__str__, "__init__": ours.__init__}
    return type(ours.__name__, (ours, sdks), namespace)
