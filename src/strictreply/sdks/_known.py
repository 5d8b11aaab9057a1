"""The client libraries that are known, and which of them something is of."""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
from urllib.parse import urlsplit

from strictreply.schema._sent_form import StrictProvider
from strictreply.sdks._anthropic import ANTHROPIC
from strictreply.sdks._openai import OPENAI
from strictreply.sdks._sdk import SDK

SDKS: list[SDK] = [OPENAI, ANTHROPIC]
"""The first is the one whose namespaces a client is expected to have of which nothing is known."""

_STRICT_HOSTS: dict[str, StrictProvider] = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
}
"""The servers that are known to have a strict mode, by the ends of their hosts."""

HTTP_LIBRARIES = ("httpx", "httpx2")
"""The HTTP libraries on which an SDK may stand."""

OF_CLIENTS = "_base_client"
"""The module of an SDK that has the classes of its clients."""


def register_sdk(sdk: SDK) -> None:
    """Make a client library known."""
    if sdk not in SDKS:
        SDKS.append(sdk)
        for known in (_sdk_of, _is_in_sdk, _is_file_of_sdk, sdk_of_clients, _plain_sdk_of):
            known.cache_clear()


def sdk_of(value: object) -> SDK | None:
    """Return the SDK that the class of a value is of, or derived from; None for any other.

    Only those that Stainless made count, here and below.
    """
    kind: Any = type(value)
    return _sdk_of(kind)


@cache
def _sdk_of(kind: type[object]) -> SDK | None:
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return next((sdk for sdk in _of_stainless() if sdk.package in packages), None)


def _of_stainless() -> list[SDK]:
    return [sdk for sdk in SDKS if sdk.is_stainless]


def is_plainly_of_sdk(value: object) -> bool:
    """Return whether the class of a value is an SDK's own, and none that was derived from it."""
    return _is_in_sdk(type(value).__module__)


@cache
def _is_in_sdk(module: str) -> bool:
    return module.partition(".")[0] in {sdk.package for sdk in _of_stainless()}


def is_sdks_own(function: object) -> bool:
    """Return whether a function, and each that it wraps, is plain and from a file of an SDK."""
    while type(function) is FunctionType:
        if not _is_file_of_sdk(function.__code__.co_filename):
            return False

        wrapped = vars(function).get("__wrapped__")
        if wrapped is None:
            return True
        function = wrapped

    return False


@cache
def _is_file_of_sdk(filename: str) -> bool:
    """Return whether a file with code is one of an SDK or of an HTTP library."""
    packages = (*HTTP_LIBRARIES, *(sdk.package for sdk in _of_stainless()))
    loaded = [str(sys.modules[name].__file__) for name in packages if name in sys.modules]
    return filename.startswith(tuple(str(Path(file).parent) for file in loaded))


def sdk_behind(client: object) -> SDK | None:
    """Return the SDK that a client is of, by its class; None for any other object."""
    kind: Any = type(client)
    return sdk_of_clients(kind)


@cache
def sdk_of_clients(kind: type[object]) -> SDK | None:
    """Return the SDK one of whose clients a class is, or is derived from; None for any other."""
    modules = {base.__module__ for base in kind.__mro__}
    known = (sdk for sdk in _of_stainless() if f"{sdk.package}.{OF_CLIENTS}" in modules)
    return next(known, None)


def sdk_for(client: object) -> SDK:
    """Return the SDK whose namespaces a client has: its own, else the first that it has one of."""
    kind: Any = type(client)
    return sdk_of_clients(kind) or _plain_sdk_of(kind) or _sdk_like(client)


def _sdk_like(client: object) -> SDK:
    known = (sdk for sdk in SDKS if _usual_namespace(client, sdk) is not None)
    return next(known, SDKS[0])


@cache
def _plain_sdk_of(kind: type[object]) -> SDK | None:
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    known = (sdk for sdk in SDKS if not sdk.is_stainless and sdk.package in packages)
    return next(known, None)


def usual_namespace(client: object) -> object:
    """Return the first guarded namespace of a client that has a ``create``; None without any."""
    return _usual_namespace(client, sdk_for(client))


def _usual_namespace(client: object, sdk: SDK) -> object:
    found = (member_at(client, path) for path in sdk.doors)
    return next((one for one in found if callable(getattr(one, "create", None))), None)


def member_at(client: object, path: str) -> object:
    """Return the member of a client at a path; None where it has none."""
    found: Any = client
    for name in path.split("."):
        found = getattr(found, name, None)

    return found


def behind_module(client: object) -> object:
    """Return the client behind the functions of an SDK's package; any other client as it is."""
    if not isinstance(client, ModuleType):
        return client

    found = (sdk.module_client for sdk in SDKS if sdk.package == client.__name__)
    make = next(found, None)
    return client if make is None else make(client)


def strict_provider(client: object) -> StrictProvider | None:
    """Return the provider whose strict mode a client's server has; None for any other server."""
    return _provider_at(str(getattr(client, "base_url", "")))


@lru_cache
def _provider_at(address: str) -> StrictProvider | None:
    host = urlsplit(address).hostname or ""
    for end, provider in _STRICT_HOSTS.items():
        if host == end or host.endswith(f".{end}"):
            return provider

    return None
