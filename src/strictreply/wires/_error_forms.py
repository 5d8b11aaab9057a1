"""Formats of bodies that consist of an error, and the meanings of servers' own codes.

The API puts an error under ``error``, with a ``message``, a ``type`` and a ``code``. The rows of
one table, each with a public source, convert other formats to that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeAlias, cast

from strictreply.values._limits import JSONObject

Meaning: TypeAlias = int | str
"""The meaning of a server's own code: an HTTP status, or the API's own type of such an error."""

_NOTHING: Mapping[int, Meaning] = MappingProxyType({})
_FILTER = "content_filter"
_TOO_LONG = "context_length_exceeded"
_MONEY = "insufficient_quota"

_GOOD = frozenset({"", "0", "200", "success", "ok"})
"""The codes by which servers report success."""

_MINIMAX: Mapping[int, Meaning] = {
    **dict.fromkeys((1000, 1013, 1024, 1033), 500),
    1001: 504,
    **dict.fromkeys((1002, 1039, 1041), 429),
    **dict.fromkeys((1004, 2049), 401),
    1008: _MONEY,
    **dict.fromkeys((1026, 1027), _FILTER),
    **dict.fromkeys((1042, 2013), 400),
}

_BAIDU: Mapping[int, Meaning] = {
    **dict.fromkeys((1, 336000, 336100), 500),
    2: 503,
    3: 404,
    **dict.fromkeys((4, 17, 18, 19), 429),
    6: 403,
    **dict.fromkeys((13, 14, 110, 111), 401),
    **dict.fromkeys((100, 336002, 336003, 336006), 400),
}

_ZHIPU: Mapping[int, Meaning] = {
    **dict.fromkeys((1000, 1001, 1002, 1003, 1004), 401),
    **dict.fromkeys((1110, 1111, 1112, 1121, 1220), 403),
    1113: _MONEY,
    **dict.fromkeys((1120, 1230, 1234), 500),
    **dict.fromkeys((1210, 1212, 1213, 1214, 1215), 400),
    **dict.fromkeys((1211, 1221, 1222), 404),
    1261: _TOO_LONG,
    1301: _FILTER,
    **dict.fromkeys((1302, 1303, 1304, 1305), 429),
}

_CLOUDFLARE: Mapping[int, Meaning] = {
    **dict.fromkeys((3003, 3039, 5004, 5007), 400),
    10000: 401,
    **dict.fromkeys((3023, 3041, 5016, 5018), 403),
    **dict.fromkeys((3042, 7000, 7003), 404),
    **dict.fromkeys((3007, 3008), 408),
    3006: 413,
    **dict.fromkeys((3036, 3040), 429),
}


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """One format of errors: what servers send, a public source, and the servers.

    ``read`` returns the error of a body in the form of the API; None if the body is not an error.
    """

    sends: str
    source: str
    servers: tuple[str, ...]
    read: Callable[[JSONObject], JSONObject | None]


def error_of(body: object) -> JSONObject | None:
    """Return the error that a body without a reply is, in the form of the API; else None."""
    if not isinstance(body, Mapping):
        return None

    plain = cast("JSONObject", body)
    return next((error for form in ERROR_FORMS.values() if (error := form.read(plain))), None)


def error_beside(response: object) -> JSONObject | None:
    """Return the error in a response that also has choices; None if there is none."""
    told = response.get("base_resp") if isinstance(response, Mapping) else None
    return _base_resp(cast("JSONObject", response)) if told else None


def meaning_of(error: object) -> Meaning | None:
    """Return the meaning of an error's code, by a provider's own table."""
    if not isinstance(error, Mapping) or not {*error} <= {"code", "message"}:
        return None

    return _meaning(_ZHIPU, error.get("code"))


def _meaning(meanings: Mapping[int, Meaning], code: object) -> Meaning | None:
    if isinstance(code, str) and code.isascii() and code.isdecimal() and len(code) < _LONG:
        code = int(code)

    return meanings.get(code) if type(code) is int else None


_LONG = 9  # more digits than any code has


def _is_code(code: object) -> bool:
    """Return whether a value is the code of an error."""
    if isinstance(code, bool) or not isinstance(code, str | int):
        return False

    return str(code).strip().lower() not in _GOOD


def _text(value: object) -> str:
    return value if isinstance(value, str) and value.strip() else ""


def _in_api_form(
    account: JSONObject, words: str, code: object, meanings: Mapping[int, Meaning] = _NOTHING
) -> JSONObject:
    """Return an error in the form of the API, with all its own members."""
    error = {**account, "message": words, "code": code}
    meaning = _meaning(meanings, code)
    if isinstance(meaning, int):
        error["status"] = meaning
    elif meaning is not None:
        error["type"] = meaning

    return error


def _coded(
    code: str, words: str, *, within: str = "", meanings: Mapping[int, Meaning] = _NOTHING
) -> Callable[[JSONObject], JSONObject | None]:
    """Return a reader of errors whose code and message have these names."""

    def read(body: JSONObject) -> JSONObject | None:
        held = body.get(within) if within else body
        if not isinstance(held, Mapping) or not _is_code(held.get(code)):
            return None

        account = cast("JSONObject", held)
        told = _text(account.get(words))
        known = _meaning(meanings, account[code]) is not None
        return _in_api_form(account, told, account[code], meanings) if told or known else None

    return read


_base_resp = _coded("status_code", "status_msg", within="base_resp", meanings=_MINIMAX)


def _listed(body: JSONObject) -> JSONObject | None:
    errors = body.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    if isinstance(first, str) and first.strip():
        return {"message": first}
    if not isinstance(first, Mapping) or not first:
        return None

    account = cast("JSONObject", first)
    return _in_api_form(account, _text(first.get("message")), first.get("code"), _CLOUDFLARE)


def _problem(body: JSONObject) -> JSONObject | None:
    words = _text(body.get("detail")) or _text(body.get("title"))
    status = body.get("status")
    if not words or type(status) is not int or "title" not in body:
        return None

    return {**body, "message": words}


def _detail(body: JSONObject) -> JSONObject | None:
    detail = body.get("detail")
    if isinstance(detail, str):
        return {**body, "message": detail} if detail.strip() else None
    if isinstance(detail, Mapping):
        return cast("JSONObject", detail) or None
    if not isinstance(detail, list) or not detail:
        return None

    said = [_text(one.get("msg")) for one in detail if isinstance(one, Mapping)]
    words = "; ".join(word for word in said if word)
    return {**body, "message": words, "code": "unprocessable_entity"} if words else None


def _fault(body: JSONObject) -> JSONObject | None:
    fault = body.get("fault")
    words = _text(fault.get("faultstring")) if isinstance(fault, Mapping) else ""
    if not isinstance(fault, Mapping) or not words:
        return None

    detail = fault.get("detail")
    code = detail.get("errorcode") if isinstance(detail, Mapping) else None
    return {**fault, "message": words, "code": code}


def _told(body: JSONObject) -> JSONObject | None:
    words = _text(body.get("message")) or _text(body.get("Message"))
    return {**body, "message": words} if words else None


ERROR_FORMS: Mapping[str, ErrorForm] = {
    "base_resp": ErrorForm(
        "`base_resp` with a `status_code` that is not 0, and `status_msg`",
        "platform.minimax.io/docs/api-reference/errorcode",
        ("MiniMax",),
        _base_resp,
    ),
    "error_msg": ErrorForm(
        "`error_code` and `error_msg`",
        "cloud.baidu.com/doc/WENXINWORKSHOP/s/tlmyncueh",
        ("Baidu Qianfan",),
        _coded("error_code", "error_msg", meanings=_BAIDU),
    ),
    "error_code": ErrorForm(
        "`error_code` and `message`",
        "docs.databricks.com/api (the errors of each call)",
        ("Databricks",),
        _coded("error_code", "message"),
    ),
    "code_msg": ErrorForm(
        "`code` and `msg`, with `success: false`",
        "docs.z.ai/api-reference/api-code",
        ("Z.ai",),
        _coded("code", "msg", meanings=_ZHIPU),
    ),
    "status_code": ErrorForm(
        "`statusCode` and `message`",
        "learn.microsoft.com/azure/api-management/rate-limit-policy",
        ("Azure API Management",),
        _coded("statusCode", "message"),
    ),
    "code_message": ErrorForm(
        "`code` and `message`, also with `object: error` and a `type`",
        "NousResearch/hermes-agent#58017 (Alibaba DashScope); vllm-project/vllm#21052",
        ("Alibaba DashScope", "vLLM"),
        _coded("code", "message"),
    ),
    "errors": ErrorForm(
        "`errors`, a list, with `success: false`",
        "developers.cloudflare.com/workers-ai/platform/errors",
        ("Cloudflare Workers AI",),
        _listed,
    ),
    "problem": ErrorForm(
        "`status`, `title` and `detail` (RFC 9457)",
        "rfc-editor.org/rfc/rfc9457; HKUDS/OpenHarness#233 (NVIDIA NIM)",
        ("NVIDIA NIM",),
        _problem,
    ),
    "detail": ErrorForm(
        "`detail`, a text, an object or FastAPI's list",
        "fastapi.tiangolo.com/tutorial/handling-errors; "
        "pydantic/pydantic-ai, tests/models/cassettes (Mistral)",
        ("Mistral",),
        _detail,
    ),
    "fault": ErrorForm(
        "`fault` with `faultstring` and `detail.errorcode`",
        "docs.apigee.com/api-platform/fundamentals/fault-handling",
        ("Apigee",),
        _fault,
    ),
    "message": ErrorForm(
        "only `message`",
        "docs.cohere.com/reference/errors",
        ("Cohere",),
        _told,
    ),
}
"""Formats of a body that consists of an error, tried in this order."""

SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes for which waiting does not help, although servers send them with status 429."""

_STATUS_WORDS: Mapping[int, str] = {
    # OpenAI's error types and codes, the codes of a failed response; Anthropic's types; the names
    # of Google's RPC codes; the SDK's and vLLM's classes; Alibaba DashScope's codes; OpenRouter's;
    # Databricks' codes; the exceptions of AWS Bedrock; Apigee's
    400: "invalid_request_error invalid_request invalid_argument failed_precondition "
    "invalidparameter invalid_parameter_value invalid_value invalid_type invalid_prompt "
    "invalid_image invalid_image_format invalid_image_url invalid_base64_image "
    "unsupported_parameter unsupported_value missing_required_parameter bad_request "
    "bad_request_error badrequesterror validationexception context_length_exceeded",
    401: "authentication_error authenticationerror invalid_api_key invalidapikey unauthenticated "
    "unauthorized invalid_authentication invalidapikeyforgivenresource "
    "unrecognizedclientexception",
    402: "billing_error payment_required insufficient_credits arrearage",
    403: "permission_error permission_denied permissiondeniederror forbidden access_denied "
    "accessdenied accessdeniedexception",
    404: "not_found_error notfounderror not_found model_not_found modelnotfound "
    "deploymentnotfound resource_does_not_exist resourcenotfoundexception",
    408: "request_timeout modeltimeoutexception",
    413: "request_too_large payload_too_large content_too_large",
    422: "unprocessable_entity unprocessable_content unprocessableentityerror",
    429: "rate_limit_exceeded rate_limit_error ratelimiterror too_many_requests "
    "resource_exhausted request_limit_exceeded throttling throttlingexception quotaviolation "
    "spikearrestviolation insufficient_quota billing_hard_limit_reached",
    500: "server_error internal_server_error internalservererror internal_error internalerror "
    "internal internalserverexception api_error",
    503: "overloaded engine_overloaded unavailable service_unavailable "
    "serviceunavailableexception modelnotreadyexception temporarily_unavailable "
    "provider_overloaded provider_unavailable",
    504: "deadline_exceeded timeout_error gateway_timeout",
    529: "overloaded_error",  # Anthropic's own, not an HTTP status
}
STATUSES: Mapping[str, int] = {
    word: status for status, words in _STATUS_WORDS.items() for word in words.split()
}
"""The HTTP status that the code or the type of an error stands for."""

PHRASES: Mapping[str, int] = {
    **{one.phrase.lower(): one.value for one in HTTPStatus if one >= HTTPStatus.BAD_REQUEST},
    # FastAPI's security; Mistral, as recorded by pydantic-ai; Cohere
    **dict.fromkeys(("not authenticated", "invalid api key", "invalid api token"), 401),
}
"""The HTTP status that the whole message of an error names."""
