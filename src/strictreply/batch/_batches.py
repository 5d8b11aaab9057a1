"""The kinds of batches: rows, columns, a table of Arrow, a frame of pandas, and a parquet file made of JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from strictreply.batch._journal import INDEX
from strictreply.batch._results import AS_TEXT, COLUMNS, RowResult
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject
from strictreply.values._replies import OUR_NAMES


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of a batch, and what makes a batch of the same kind of the results."""

    rows: Sequence[Any]
    with_results: Callable[[Sequence[RowResult]], Any]


def batch_of(batch: Any, prefix: str) -> Batch:
    """Read a batch; the result columns are named with ``prefix`` before each.

    Raises ContractError when the batch has such columns already, TypeError when it is none.
    """
    if isinstance(batch, list):
        _refuse_taken(sorted({str(name) for row in batch if isinstance(row, Mapping) for name in row}), prefix)
        return Batch(batch, partial(_named_rows, batch, prefix=prefix))
    if isinstance(batch, Mapping):
        _refuse_taken(batch, prefix)
        return Batch(_rows_of(batch), partial(_beside, batch, prefix=prefix))
    if hasattr(batch, "to_pylist") and hasattr(batch, "append_column"):
        _refuse_taken(batch.column_names, prefix)
        return Batch(batch.to_pylist(), lambda results: _appended(batch, results, prefix))
    if hasattr(batch, "to_dict") and hasattr(batch, "assign"):
        _refuse_taken(batch.columns, prefix)
        return Batch(batch.to_dict("records"), lambda results: _framed(batch, results, prefix))
    raise TypeError(
        "a batch is a list of mappings, a mapping of columns, a pyarrow.Table or a pandas.DataFrame, "
        f"not {type(batch).__name__}; give an iterator of rows to stream()"
    )


def named(row: Any, result: RowResult, prefix: str) -> dict[str, Any]:
    """Return a row with its result columns; a row that is no mapping has no columns of its own."""
    own = row if isinstance(row, Mapping) else {}
    return {**own, **{prefix + name: value for name, value in result.columns.items()}}


def _named_rows(rows: Sequence[Any], results: Sequence[RowResult], *, prefix: str) -> list[dict[str, Any]]:
    return [named(row, result, prefix) for row, result in zip(rows, results, strict=True)]


def _beside(columns: Mapping[str, Any], results: Sequence[RowResult], *, prefix: str) -> dict[str, Any]:
    return {**columns, **_columns(results, prefix)}


def _framed(frame: Any, results: Sequence[RowResult], prefix: str) -> Any:
    """Return a frame with the result columns; None stays None, which a column of texts would make NaN of."""
    series = import_module("pandas").Series
    columns = _columns(results, prefix)
    for name in AS_TEXT:
        columns[prefix + name] = series(columns[prefix + name], index=frame.index, dtype=object)
    return frame.assign(**columns)


def _refuse_taken(names: Iterable[Any], prefix: str) -> None:
    taken = {prefix + name for name in COLUMNS}
    for name in names:
        if name in taken:
            raise ContractError(
                f"the batch has a column {name!r} already, which the results use: rename it, or rename the "
                "result columns, as in rows(…, prefix='out_')"
            )


def _rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    if len({len(column) for column in columns.values()}) > 1:
        raise ContractError("the columns of the batch differ in length: each needs one value per row")
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _columns(results: Sequence[RowResult], prefix: str) -> dict[str, Any]:
    """Return the results by columns, in which those without one form are JSON text."""
    rows = [result.columns for result in results]
    return {prefix + name: [_cell(row[name], is_text=name in AS_TEXT) for row in rows] for name in COLUMNS}


def _cell(value: Any, *, is_text: bool) -> Any:
    return json.dumps(value) if is_text and value is not None else value


def arrow(module: str = "pyarrow") -> Any:
    """Import pyarrow, or a module of it; ImportError says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError("parquet needs pyarrow: pip install 'strictreply[batch]'") from error


def arrow_types() -> dict[str, Any]:
    """Return the type of each result column in Arrow."""
    text, number = arrow().string(), arrow().int64()
    usage = arrow().struct([(name, number) for name in OUR_NAMES])
    return {"reply": text, "status": text, "issues": text, "attempts": number, "usage": usage}


def _appended(table: Any, results: Sequence[RowResult], prefix: str) -> Any:
    columns, types = _columns(results, prefix), arrow_types()
    for name in COLUMNS:
        table = table.append_column(prefix + name, arrow().array(columns[prefix + name], types[name]))
    return table


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
                columns = {
                    _spelled(name): [_cell(row.get(name), is_text=name in texts) for row in rows] for name in types
                }
                writer.write_table(pa.table(columns, schema=schema))
        file.flush()
        os.fsync(file.fileno())
    part.replace(target)


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
