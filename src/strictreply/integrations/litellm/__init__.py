"""The guard for LiteLLM's proxy.

With it, ``/chat/completions``, ``/responses`` and ``/v1/messages`` return only replies that fit the
contract of their request. One line of the proxy's configuration adds it: ``callbacks:
strictreply.integrations.litellm.guard``.

The first response of a call is the one that the proxy already has. Retries go through the proxy's
own routing, fallbacks, keys and logs, without retries of the router.
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
