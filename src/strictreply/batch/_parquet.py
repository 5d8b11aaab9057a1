"""Results as parquet, made of a file of JSON lines when the run is at its end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from strictreply.batch._batches import arrow, arrow_types
from strictreply.batch._journal import INDEX
from strictreply.values._json import JSONObject

_GROUP_BYTES = 8_000_000  # of JSON lines, that are held at a time
_INT64 = 2**63
_EXACT = 2**53  # up to which a double holds every whole number
_TEXT = "json"
_COMMON = {"str": {"str"}, "bool": {"bool"}, "int": {"int", "long"}, "float": {"int", "float"}}
"""As what a column is written whose values are of these kinds; as text, where it has none."""


def write_parquet(lines: Path, target: Path, prefix: str) -> None:
    """Write the rows of a file of results as parquet, whole or not at all.

    A column of the rows is boolean, int64, double or string where all of its values are; any other is JSON text. The
    file is read twice, and a few megabytes of it are held at a time. Raises ImportError without pyarrow.
    """
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    ours = {prefix + INDEX: pa.int64(), **{prefix + name: kind for name, kind in arrow_types().items()}}
    known = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string(), _TEXT: pa.string()}
    kinds = {name: kind for name, kind in _kinds(lines).items() if name not in ours}
    types = {name: known[kind] for name, kind in kinds.items()} | ours
    schema = pa.schema({_spelled(name): kind for name, kind in types.items()})
    texts = {name for name, kind in kinds.items() if kind == _TEXT} | {f"{prefix}reply", f"{prefix}issues"}
    part = target.with_name(f"{target.name}.part")
    with part.open("wb") as file:
        with parquet.ParquetWriter(file, schema) as writer:
            for rows in _groups(lines):
                columns = {_spelled(name): [_cell(row.get(name), name in texts) for row in rows] for name in types}
                writer.write_table(pa.table(columns, schema=schema))
        file.flush()
        os.fsync(file.fileno())
    part.replace(target)


def _cell(value: Any, is_text: bool) -> Any:
    return json.dumps(value) if is_text and value is not None else value


def _kinds(lines: Path) -> dict[str, str]:
    """Find what each column of the rows holds, in the order in which they are first seen."""
    found: dict[str, set[str]] = {}
    for rows in _groups(lines):
        for row in rows:
            for name, value in row.items():
                found.setdefault(name, set()).add(_kind(value))
    return {name: _common(kinds - {"NoneType"}) for name, kinds in found.items()}


def _kind(value: Any) -> str:
    kind = type(value).__name__
    if kind == "int" and abs(value) > _EXACT:
        return "long" if -_INT64 <= value < _INT64 else _TEXT
    return _TEXT if kind in {"dict", "list"} or (kind == "str" and value != _spelled(value)) else kind


def _spelled(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()  # half of a surrogate pair is in no text of Arrow


def _common(kinds: set[str]) -> str:
    return next((kind for kind, among in _COMMON.items() if kinds <= among), _TEXT)


def _groups(lines: Path) -> Iterator[Sequence[JSONObject]]:
    with lines.open("rb") as file:
        while lines_read := file.readlines(_GROUP_BYTES):
            yield [json.loads(line) for line in lines_read]
