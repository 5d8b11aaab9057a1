"""strictreply's errors that are also the SDK's, so that a program that catches those works."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from strictreply.sdks._known import sdk_behind, sdk_for
from strictreply.sdks._posting import is_raw
from strictreply.sdks._sdk import SDK
from strictreply.sdks._transport import Sent, Transport
from strictreply.values._errors import CallFailed, ReplyHalted, TransportFailed
from strictreply.values._issues import Remedy
from strictreply.wires._members import peek

_BY_STATUS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}

_SERVERS = 500  # and above: the status of a server's own errors


def as_sdks_too(
    error: CallFailed, transport: Transport, last: Sent | None, raised: Exception | None
) -> CallFailed:
    """Return the same error as an instance of what the SDK would have raised, with its fields.

    ``last`` is the last response, ``raised`` the error after it.

    - If ``raised`` is an error of the SDK, the result is of its class.
    - A deadline becomes ``APITimeoutError``.
    - A content filter and a truncated reply become what ``parse`` raises for them.
    - A broken connection becomes ``APIConnectionError``.
    - Any other rejected reply becomes ``APIResponseValidationError``. Its ``response`` is None if
      another program read it.

    Without an SDK's client the error stays unchanged.
    """
    known = sdk_behind(transport.client)
    if known is None:
        return error

    sdk: Any = import_module(known.package)

    if isinstance(error, TransportFailed) and error.cause is None:
        if raised is None and last is not None:
            raised = _told(known, error, transport, last)

        error.cause = raised

    kind = _sdks_kind(known, error, last, raised)
    if kind is None:
        return error
    if kind is type(raised) and error.reason != "deadline":
        return _like_raised(error, raised)
    if kind.__name__ in (known.cut_error, known.filtered_error):
        return _both(error, kind, {"completion": _completion(last, transport)})

    # None if another program read the response
    source: Any = None if last is None else last.source
    response = source.http_response if is_raw(source) else None
    request = _request(response, transport)

    fields = {
        "message": str(error).partition("\n")[0],
        "request": request,
        "body": None,
        **dict.fromkeys(known.error_members),
    }

    if kind is sdk.APIResponseValidationError and last is not None:
        fields["body"] = last.plain
        fields["response"] = response
        fields["status_code"] = getattr(response, "status_code", 200)
        named = "_request_id" if response is None else "request_id"
        fields["request_id"] = getattr(source, named, None)

    return _both(error, kind, fields)


def _request(response: object, transport: Transport) -> object:
    """Return the request of a response, or one like it if another program read the response."""
    request = getattr(response, "request", None)
    if request:
        return request

    base = str(transport.client.base_url).rstrip("/")
    url = f"{base}/{transport.wire.path}"
    return transport.client._client.build_request("POST", url)  # noqa: SLF001


def _told(known: SDK, error: TransportFailed, transport: Transport, last: Sent) -> Any:
    """Return the SDK's exception for the error in a response, as for its status.

    None if the response has no error that names a status.
    """
    status = error.status_code
    if status is None:
        return None

    said: Any = transport.wire.error_in(last.plain)
    words = f"Error code: {status} - {said}"
    body = last.plain if isinstance(peek(last.plain, "error"), dict) else {"error": said}
    source = last.source
    response: Any = source.http_response if is_raw(source) else None

    # the SDK recognises an error by the status of its response
    kind: Any = known.http_type
    with_status = kind(
        status,
        headers=None if response is None else response.headers,
        request=_request(response, transport),
        content=b"",
    )
    make = transport.client._make_status_error  # noqa: SLF001
    told = make(words, body=body, response=with_status)
    told.response = response
    return told


def _sdks_kind(known: SDK, error: CallFailed, last: Sent | None, raised: Exception | None) -> Any:
    sdk: Any = import_module(known.package)
    base = known.named("", known.base_error)
    halted = error.reason if isinstance(error, ReplyHalted) else ""
    if halted == "deadline":
        return sdk.APITimeoutError
    is_cut = {issue.remedy for issue in error.issues} == {Remedy.SHORTEN}
    if known.cut_error and last is not None and is_cut:
        return known.named("", known.cut_error)
    if isinstance(raised, base):
        return type(raised)
    if known.filtered_error and halted == "content_filter":
        return known.named("", known.filtered_error)
    if raised is not None:
        return sdk.APIConnectionError

    return None if last is None else sdk.APIResponseValidationError


def _like_raised(error: CallFailed, raised: Any) -> CallFailed:
    both = _both(error, type(raised), vars(raised))

    # what the HTTP library raised, unless it repeats what the server sent
    cause = raised.__cause__
    is_repeating = any("ProtocolError" in base.__name__ for base in type(cause).__mro__)
    both.__cause__ = None if is_repeating else cause
    return both


def _completion(last: Sent | None, transport: Transport) -> object:
    if last is None or not isinstance(last.plain, dict):
        return None
    if transport.wire.draft_in(last.plain) is None:
        return None  # an error of the API with the same meaning

    if last.is_stream:
        return sdk_for(transport.client).response_type(transport.door).model_construct(**last.plain)

    return last.source.parse() if is_raw(last.source) else last.source


def _both(error: CallFailed, kind: type, fields: dict[str, object]) -> CallFailed:
    ours: Any = type(error)
    both = _class_of(ours, kind)
    made: CallFailed = both.__new__(both)
    made.args = error.args
    made.__dict__ = {**fields, **vars(error), "_sdks": frozenset(fields) - vars(error).keys()}
    return made


@cache
def _class_of(ours: type[CallFailed], sdks: type) -> type[CallFailed]:
    def __reduce__(self: Any) -> object:  # noqa: N807 - it becomes the method of this name
        # only as strictreply's class: the SDK's fields refer to live connections
        theirs = {*self._sdks, "_sdks"}
        alone = ours.__new__(ours)
        alone.args = self.args
        alone.__dict__ = {name: value for name, value in vars(self).items() if name not in theirs}
        return alone.__reduce__()

    namespace: dict[str, Any] = {
        "__reduce__": __reduce__,
        "__doc__": ours.__doc__,
        "__module__": ours.__module__,
        "__str__": ours.__str__,
        "__init__": ours.__init__,
    }
    return type(ours.__name__, (ours, sdks), namespace)
