"""Write the table of the keywords of ``wrap`` in ``docs/reference/client.md`` anew from the code.

A test fails while the page and the code differ.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import strictreply as sr
from strictreply.client._client import WrapKeywords
from strictreply.contract._contract import ContractKeywords

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "client.md"
BEGIN = "<!-- keywords:begin -->\n"
END = "<!-- keywords:end -->\n"
HEAD = "| keyword | type | default | what it is |\n|---|---|---|---|\n"

# The keywords that are not in a TypedDict, because each form of the call gives them other types.
FIRST = (
    ("contract", sr.Contract, "None", "A ready contract, in place of the keywords of one."),
    ("answer", object, "str", "What a direct answer must be: `str`, a pydantic type or a schema."),
)


def keyword_rows() -> Iterator[str]:
    """Yield the rows: first what is declared, then how the calls are made."""
    for name, hint, default, words in FIRST:
        yield row(name, hint, default, words)

    hints = get_type_hints(WrapKeywords)
    defaults = defaults_of()
    for kind in (ContractKeywords, WrapKeywords):
        for name, words in described(kind):
            yield row(name, hints[name], defaults[name], words)


def row(name: str, hint: Any, default: str, words: str) -> str:
    """Return one row; a type of several says `or`, because a bar ends a cell."""
    types = [*dict.fromkeys(types_in(hint))]
    last = types.pop()
    named = f"{', '.join(types)} or {last}" if types else last
    return f"| `{name}` | {named} | `{default}` | {words} |"


def types_in(hint: Any) -> Iterator[str]:
    """Yield what a value may be: of a list of words each, of a callable that it is a function.

    That it may be None is seen in the default.
    """
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        for one in get_args(hint):
            yield from types_in(one)
    elif origin is Literal:
        yield from (f"`{json.dumps(word)}`" for word in get_args(hint))
    elif origin is Callable:
        yield "a function"
    elif hint is not NoneType:
        yield f"`{(origin or hint).__name__}`"


def described(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the keywords of a TypedDict, each with its sentence."""
    module: Any = ast.parse(inspect.getsource(kind))
    lines = module.body[0].body
    for line, below in pairwise(lines):
        if isinstance(line, ast.AnnAssign):
            words = ast.literal_eval(below.value) if isinstance(below, ast.Expr) else ""
            yield ast.unparse(line.target), in_markdown(words)


def in_markdown(docstring: str) -> str:
    """Return the first paragraph of a docstring on one line, its roles as plain names."""
    words = " ".join(docstring.partition("\n\n")[0].split())
    words = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"`\1`", words)
    return words.replace("``", "`").replace("|", "\\|")


def defaults_of() -> dict[str, str]:
    """Return the default of each keyword, from the function or else the value that it fills."""
    defaults = dict.fromkeys(("allow_blank_answers", "quarantine"), "False")
    defaults["tools"] = "()"
    for kind in (sr.RetryPolicy, sr.Contract):
        for field in fields(kind):
            if field.default is not MISSING:
                defaults.setdefault(field.name, written(field.default))

    for name, parameter in inspect.signature(sr.wrap).parameters.items():
        if parameter.default is not parameter.empty:
            defaults[name] = written(parameter.default)
    return defaults


def written(value: object) -> str:
    """Return a default as a program would write it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple) and len(value) == 1:
        return written(value[0])
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"{type(value).__name__}()"


def keywords_page(page: str) -> str:
    """Return the page with the table as the code has it."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    table = "\n".join(keyword_rows())
    return f"{before}{BEGIN}\n{HEAD}{table}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(keywords_page(PAGE.read_text("utf-8")), "utf-8")
