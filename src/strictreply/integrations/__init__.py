"""Integrations with libraries that call models themselves.

There is one module or package for each library; none is imported here.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from strictreply.core.arguments import how_to_install

# the library that a top-level module belongs to, and the extra that installs it
_NEEDED: Final = {
    **dict.fromkeys(("langgraph", "langchain_core"), ("langgraph 1.0 or newer", "langgraph")),
    **dict.fromkeys(("dbos", "psycopg", "sqlalchemy"), ("dbos 3.4 or newer", "durable")),
    "litellm": ("litellm 1.108 or newer, with its proxy", "litellm"),
    "anthropic": ("anthropic 0.125 or newer", "anthropic"),
    "instructor": ("instructor 1.17 or newer", "instructor"),
    "opentelemetry": ("opentelemetry-api 1.30 or newer", "otel"),
}


def load(module: str) -> ModuleType:
    """Import a module of an optional library.

    If the library is missing, ImportError names the extra to install.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise

        library, extra = _NEEDED[missing]
        raise ImportError(f"{module} needs {library}: {how_to_install(extra)}") from error
