"""Which routes of the proxy are open: those that are judged, and those that return no reply.

A route that is not listed is refused, for example a new one of a later LiteLLM.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from strictreply.integrations.litellm._requests import CHAT, MESSAGES, RESPONSES, JudgedApi
from strictreply.integrations.litellm._settings import ProxySettings

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

passing: ContextVar[bool] = ContextVar("strictreply_passing", default=False)
"""Whether the settings let the present request pass without a verdict."""

JUDGED: Final[Mapping[str, JudgedApi]] = {
    **dict.fromkeys(("completion", "acompletion"), CHAT),
    **dict.fromkeys(("responses", "aresponses"), RESPONSES),
    **dict.fromkeys(("anthropic_messages", "aanthropic_messages"), MESSAGES),
}
"""The APIs that are judged, by LiteLLM's call types."""

NAMES: Final = {
    **dict.fromkeys(("agenerate_content", "agenerate_content_stream"), "generateContent"),
    **dict.fromkeys(("text_completion", "atext_completion"), "/v1/completions"),
}
"""The names that clients use for the routes whose requests are judged by their members alone."""

_NO_REPLY: Final = """
    aembedding embedding embeddings amoderation moderation arerank rerank asearch search aocr ocr
    aimage_generation image_generation aimage_edit image_edit aspeech speech
    atranscription transcription audio_transcription aingest ingest apply_guardrail
    call_mcp_tool list_mcp_tools adelete_responses
    acreate_file afile_retrieve afile_delete afile_list
    alist_batches aretrieve_batch acancel_batch
    acreate_fine_tuning_job acancel_fine_tuning_job alist_fine_tuning_jobs
    aretrieve_fine_tuning_job acreate_skill alist_skills aget_skill adelete_skill
    acreate_container alist_containers aretrieve_container adelete_container
    aupload_container_file alist_container_files aretrieve_container_file
    adelete_container_file aretrieve_container_file_content
    avector_store_create avector_store_retrieve avector_store_list avector_store_update
    avector_store_delete avector_store_search vector_store_search
    avector_store_file_create avector_store_file_list avector_store_file_retrieve
    avector_store_file_content avector_store_file_update avector_store_file_delete
    avideo_generation avideo_list avideo_status avideo_content avideo_remix avideo_edit
    avideo_extension avideo_create_character avideo_get_character create_video
"""
SILENT: Final = frozenset(_NO_REPLY.split())
"""LiteLLM's call types that return no reply of a chat model."""

# the routes whose requests reach the hooks, which decide
_TO_THE_HOOKS: Final = """
    [/v1]/chat/completions /engines/{+}/chat/completions /cursor/chat/completions
    /openai/deployments/{+}/chat/completions [/openai][/v1]/responses
    [/v1]/completions /engines/{+}/completions /openai/deployments/{+}/completions
    /v1/messages [/v1beta]/models/{+}:generateContent [/v1beta]/models/{+}:streamGenerateContent
"""
# the routes of models that return no reply of a chat model
_OF_MODELS: Final = """
    [/v1]/embeddings /engines/{+}/embeddings /openai/deployments/{+}/embeddings
    [/v1]/images/{} /openai/deployments/{+}/images/{} [/v1]/audio/{} [/v1]/moderations
    [/v1]/rerank /v2/rerank [/v1]/ocr [/v1]/search [/v1]/search/{} [/v1]/videos [/v1]/videos/{*}
    [/v1]/vector_stores [/v1]/vector_stores/{*} [/v1]/vector_store/{*} /v1/indexes
    [/v1]/rag/ingest [/v1]/fine_tuning/jobs [/v1]/fine_tuning/jobs/{*} [/v1]/files
    [/v1]/skills [/v1]/skills/{*} [/v1]/containers [/v1]/containers/{*}
    [/v1]/models [/v1]/models/{} /cursor/models /cursor/v1/models
    [/openai][/v1]/responses/input_tokens /v1/messages/count_tokens
    [/v1beta]/models/{+}:countTokens /utils/{} /v1/memory /v1/memory/{*}
    /mcp /mcp/{*} /mcp-rest/{*} /{}/mcp /toolset/{}/mcp /api/event_logging/{}
"""
# pages, sign-in and administration: the first part of their paths
_AREAS: Final = """
    access_group active adaptive_router add agent alerting audit budget cache callback callbacks
    claude-code cloudzero compliance config config_overrides coordination_redis cost
    cost_optimization credentials customer debug delete docs email end_user fallback gateway get
    global guardrails health introspect invitation jwt key lazy lens litellm
    litellm-asset-prefix login management model model-insights model_group model_hub moyai
    onboarding organization otel-spans policies project provider public reload router schedule
    scim search_tools session spend sso swagger tag team telemetry ui update upload user vantage
    .well-known _next
"""
_OF_ADMINISTRATION: Final = """
    / /get_favicon /get_image /get_logo_url /openapi.json /redoc /routes /robots.txt /settings
    /test /authorize /authorize/{} /register /revoke /token /{}/authorize /{}/register /{}/token
    /memory-usage-in-mem-cache /memory-usage-in-mem-cache-items
    /api/plugins /api/plugins/auth-token /apply_guardrail
    /policy/info/{} /policy/list /policy/validate /policy/templates
    /prompts /prompts/list /prompts/{}/info /prompts/{}/versions
    /v1/access_group /v1/access_group/{} /v1/unified_access_group /v1/unified_access_group/{}
    /v1/agents /v1/agents/{*} /v1/logs /v1/mcp/{*} /v1/model/{} /v1/rust_control_plane/logs
    /v1/tool/{*} /v1/traces /v1/traces/{*} /v1/workflows/{*}
    /v2/guardrails/list /v2/key/{*} /v2/login /v2/model/{*} /v2/organization/{*} /v2/team/{*}
    /v2/user/{*} /v3/login /v3/login/exchange
"""
# routes of which only one method returns no reply
_OF_ONE_METHOD: Final = {
    "DELETE": "[/openai][/v1]/responses/{} [/v1]/files/{+} /prompts/{}",
    "GET": "[/v1]/batches [/v1]/batches/{+} [/v1]/files/{+} /prompts/{}",
    "PATCH": "/prompts/{}",
    "POST": "[/v1]/batches/{+}/cancel",
    "PUT": "/prompts/{}",
}
_SIGNS: Final = {"[": "(?:", "]": ")?", "{}": "[^/]+", "{+}": ".+", "{*}": ".*"}


def _pattern(paths: str) -> re.Pattern[str]:
    signs = re.compile(r"\[|\]|\{[+*]?\}")
    written: list[str] = []
    for path in paths.split():
        at = 0
        for sign in signs.finditer(path):
            written += (re.escape(path[at : sign.start()]), _SIGNS[sign.group()])
            at = sign.end()

        written += (re.escape(path[at:]), "|")

    return re.compile("".join(written[:-1]))


_HOOKED: Final = _pattern(_TO_THE_HOOKS)
_IN_AREAS: Final = " ".join(f"/{area}[/{{*}}]" for area in _AREAS.split())
_PASSED: Final = _pattern(f"{_OF_MODELS} {_OF_ADMINISTRATION} {_IN_AREAS}")
_PASSED_BY_METHOD: Final = {method: _pattern(paths) for method, paths in _OF_ONE_METHOD.items()}
_FILE_CONTENT: Final = re.compile(r"(/v1)?/files/.*content/?")  # may contain a batch's replies


def is_listed(method: str, path: str) -> bool:
    """Return whether a request may pass: the hooks decide about it, or it returns no reply."""
    if method == "POST" and _HOOKED.fullmatch(path):
        return True
    if method in {"HEAD", "OPTIONS"} or _PASSED.fullmatch(path):
        return True
    if _FILE_CONTENT.fullmatch(path):
        return False

    by_method = _PASSED_BY_METHOD.get(method)
    return by_method is not None and by_method.fullmatch(path) is not None


def refusal(route: str) -> str:
    """Return the message for a request to an unguarded route."""
    return (
        f"replies of {route} are not guarded; use /v1/chat/completions, /v1/responses or "
        "/v1/messages, or set pass_routes or other_routes of the guard"
    )


class RouteGate:
    """Refuses requests to routes of the proxy that are not listed.

    It runs before the proxy's routes and after its own middleware, and reads a path as they do.
    """

    def __init__(self, routes: Any, settings: Callable[[], ProxySettings]) -> None:
        self._routes = routes
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        kind = scope["type"]
        path = _path(scope) if kind in {"http", "websocket"} else ""
        is_passed = bool(path) and self._passes(path)
        is_let_in = is_passed or is_listed(scope.get("method", kind), path)

        if not path or is_let_in or self._observes():
            before = passing.set(is_passed)
            try:
                await self._routes(scope, receive, send)
            finally:
                passing.reset(before)
        elif kind == "http":
            await _answer(send, "http", path)
        else:
            await receive()
            await _close(scope, send, path)

    def _passes(self, path: str) -> bool:
        """Return whether the settings let a path through without a verdict."""
        try:
            settings = self._settings()
        except Exception:  # noqa: BLE001 - wrong settings, which the hooks report, pass nothing
            return False

        if settings.other_routes == "pass":
            return _HOOKED.fullmatch(path) is None

        return any(fnmatchcase(path, one) for one in settings.pass_routes)

    def _observes(self) -> bool:
        """Return whether replies are only observed, unless a rule says otherwise.

        Only the hooks know the key and the model of a request; they refuse it if its replies are
        enforced.
        """
        try:
            return self._settings().rollout.now().is_beside
        except Exception:  # noqa: BLE001 - as above
            return False


def install(settings: Callable[[], ProxySettings]) -> None:
    """Put a gate before the routes of this process's proxy, if it is one."""
    module = sys.modules.get("litellm.proxy.proxy_server")
    app = getattr(module, "app", None)
    if app is not None:
        app.router.middleware_stack = RouteGate(app.router.middleware_stack, settings)


def _path(scope: Scope) -> str:
    """Return the path without the one that the proxy is served under, as its router reads it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if not root or not path.startswith(root):
        return path

    return path[len(root) :] if path[len(root) :][:1] in {"", "/"} else path


async def _answer(send: Send, kind: str, path: str) -> None:
    error = {
        "message": refusal(path),
        "type": "invalid_request_error",
        "param": None,
        "code": "400",
    }
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]

    await send({"type": f"{kind}.response.start", "status": 400, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": body})


async def _close(scope: Scope, send: Send, path: str) -> None:
    """Refuse a websocket; answer it if the server can."""
    if "websocket.http.response" in (scope.get("extensions") or {}):
        await _answer(send, "websocket.http", path)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": refusal(path)[:120]})
