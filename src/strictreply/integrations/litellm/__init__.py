"""The guard in LiteLLM's proxy.

With it no reply that breaks the contract of its request leaves ``/chat/completions``,
``/responses`` or ``/v1/messages``. One line of the proxy's configuration adds it: ``callbacks:
strictreply.integrations.litellm.guard``.

A call of the proxy takes the place of an SDK's client under :func:`strictreply.wrap`: its first
response is the one that the proxy has already; further ones come through the proxy's own routing,
fallbacks, keys and logs, without retries of the router.
"""

from __future__ import annotations

from strictreply.integrations.litellm._errors import ReplyWithheld
from strictreply.integrations.litellm._guard import Guard

__all__ = ["Guard", "ReplyWithheld"]

guard: Guard  # the guard that the proxy's configuration names; made when it is first read


def __getattr__(name: str) -> Guard:
    if name != "guard":
        raise AttributeError(name)
    made = globals()[name] = Guard()
    return made
