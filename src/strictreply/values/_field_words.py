"""JSON Schemas of values, in which each member has the words that stand below its field.

They are for readers of any language: without markup, and with JSON's word for None.
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
    """Writes the docstring below a field as the description of its member.

    pydantic's ``use_attribute_docstrings`` would read the sources when the first value is parsed.
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
    """Return the docstrings below the fields of a class by field; none without its sources."""
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
