"""JSON Schemas of values, in which each member is described by the docstring of its field.

The descriptions have no markup and say ``null`` for None, for readers of any language.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DataclassSchema

from strictreply.values._limits import JSONObject


class FieldWords(GenerateJsonSchema):
    """Generates schemas in which the docstring below a field describes its member.

    pydantic's ``use_attribute_docstrings`` would read the source files already when the first value
    is parsed.
    """

    def dataclass_schema(self, schema: DataclassSchema) -> JSONObject:
        """Return the schema of a dataclass."""
        document: JSONObject = super().dataclass_schema(schema)
        members = document.get("properties", {})

        for name, text in field_words(schema["cls"]).items():
            if name in members:
                words = text.replace("``", "").replace("None", "null")
                members[name] = {**members[name], "description": " ".join(words.split())}

        return document


def field_words(kind: type[object]) -> dict[str, str]:
    """Return the docstrings below the fields of a class, by field; empty without source files."""
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):  # what inspect raises depends on how the class was loaded
        return {}

    (declared,) = ast.parse(textwrap.dedent(source)).body
    statements = declared.body if isinstance(declared, ast.ClassDef) else []
    words: dict[str, str] = {}

    for named, below in pairwise(statements):
        match named, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                words[name] = inspect.cleandoc(text)
            case _:
                pass

    return words
