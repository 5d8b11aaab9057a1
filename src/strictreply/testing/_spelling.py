"""How a program spells what a reply was made of: Python that works where it is pasted, for reports of failures."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from keyword import iskeyword
from types import FunctionType

from strictreply.contract._tool import Tool
from strictreply.values._json import JSON


def spelled(declared: object, *, tool: bool = True) -> str:
    """Spell a tool, or with ``tool=False`` the kind of an answer.

    A function or a class is spelled by its name. A :class:`Tool` or a definition has a name of its own, which is a
    variable's only by habit: it is used where a module that is loaded has this very object under it, and else the
    definition is written out.
    """
    if isinstance(declared, type) or (isinstance(declared, FunctionType) and declared.__name__.isidentifier()):
        return declared.__name__ if "<locals>" in declared.__qualname__ else declared.__qualname__
    if not tool:
        return repr(declared)
    known = Tool.of(declared)
    if any(getattr(module, "__dict__", {}).get(known.name) is declared for module in [*sys.modules.values()]):
        return known.name
    options = {"extra": known.extra, "formats": known.formats}
    said = "".join(f", {word}={value!r}" for word, value in options.items() if value not in {"forbid", "assert"})
    return f"Tool.from_openai({known.definition!r}{said})" if said else repr(known.definition)


def keywords(args: Mapping[str, JSON]) -> str:
    """Spell keyword arguments as they follow another one; names that Python does not take come as a mapping."""
    named = {name: value for name, value in args.items() if name.isidentifier() and not iskeyword(name)}
    others = {name: value for name, value in args.items() if name not in named}
    words = "".join(f", {name}={value!r}" for name, value in named.items())
    return f"{words}, **{others!r}" if others else words
