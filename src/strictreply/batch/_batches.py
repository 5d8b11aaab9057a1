"""The kinds of batches: rows, columns, a table of Arrow, a frame of pandas, and a parquet file made of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from strictreply.batch._journal import INDEX
from strictreply.batch._results import AS_TEXT, COLUMNS, RowResult, prefixed, written_whole
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject
from strictreply.values._replies import OUR_NAMES


def rows_of(batch: Any, prefix: str) -> Sequence[Any]:
    """Return the rows of a batch; ContractError when it has a result column already, TypeError when it is none."""
    ours = {prefix + column for column in COLUMNS}
    if taken := [name for name in _names_in(batch) if name in ours]:
        raise ContractError(
            f"the batch has a column {taken[0]!r} already, which the results use: rename it, or rename the "
            "result columns, as in rows(…, prefix='out_')"
        )
    if isinstance(batch, list):
        return batch
    if not isinstance(batch, Mapping):
        return list(batch.to_pylist() if _is_arrow(batch) else batch.to_dict("records"))
    columns: Mapping[str, Any] = batch
    if len({len(column) for column in columns.values()}) > 1:
        raise ContractError("the columns of the batch differ in length: each needs one value per row")
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _names_in(batch: Any) -> Iterable[Any]:
    if isinstance(batch, list):
        return sorted({str(name) for row in batch if isinstance(row, Mapping) for name in row})
    if isinstance(batch, Mapping):
        return batch
    if _is_arrow(batch):
        return cast("Iterable[Any]", batch.column_names)
    if hasattr(batch, "to_dict") and hasattr(batch, "assign"):
        return cast("Iterable[Any]", batch.columns)
    raise TypeError(
        "a batch is a list of mappings, a mapping of columns, a pyarrow.Table or a pandas.DataFrame, "
        f"not {type(batch).__name__}; give an iterator of rows to stream()"
    )


def _is_arrow(batch: Any) -> bool:  # by both: a column of a DataFrame is an attribute, too, and may have either name
    return hasattr(batch, "to_pylist") and hasattr(batch, "append_column")


def with_results(batch: Any, results: Sequence[RowResult], prefix: str) -> Any:
    """Return a batch of the same kind with the result columns; by columns, those without one form are JSON text."""
    if isinstance(batch, list):
        rows = zip(batch, results, strict=True)
        return [{**(row if isinstance(row, Mapping) else {}), **prefixed(result, prefix)} for row, result in rows]
    found = [result.columns for result in results]
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        columns[prefix + name] = [_cell(row[name], is_text=name in AS_TEXT) for row in found]
    if isinstance(batch, Mapping):
        return {**batch, **columns}
    if _is_arrow(batch):
        for name, kind in arrow_types().items():
            batch = batch.append_column(prefix + name, arrow().array(columns[prefix + name], kind))
        return batch
    series = import_module("pandas").Series
    for name in AS_TEXT:  # None stays None, which a column of texts would make NaN of
        columns[prefix + name] = series(columns[prefix + name], index=batch.index, dtype=object)
    return batch.assign(**columns)


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


_EXACT = 2**53  # up to which a double holds every whole number
_TEXT = "json"
# As what a column is written whose values are of these kinds; as text, where it has none.
_COMMON = {"str": {"str"}, "bool": {"bool"}, "int": {"int", "long"}, "float": {"int", "float"}}


def write_parquet(lines: Path, target: Path, prefix: str) -> None:
    """Write a file of results as parquet, whole or not at all; a column of mixed values is JSON text."""
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    ours = {prefix + INDEX: pa.int64(), **{prefix + name: kind for name, kind in arrow_types().items()}}
    known = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string(), _TEXT: pa.string()}
    kinds = {name: kind for name, kind in _kinds(lines).items() if name not in ours}
    types = {name: known[kind] for name, kind in kinds.items()} | ours
    schema = pa.schema({_spelled(name): kind for name, kind in types.items()})
    texts = {name for name, kind in kinds.items() if kind == _TEXT} | {f"{prefix}reply", f"{prefix}issues"}
    with written_whole(target) as file, parquet.ParquetWriter(file, schema) as writer:
        for rows in _groups(lines):
            columns = {_spelled(name): [_cell(row.get(name), is_text=name in texts) for row in rows] for name in types}
            writer.write_table(pa.table(columns, schema=schema))


def _kinds(lines: Path) -> dict[str, str]:
    """Find what each column of the rows holds, in the order in which they are first seen."""
    found: dict[str, set[str]] = {}
    for rows in _groups(lines):
        for row in rows:
            for name, value in row.items():
                found.setdefault(name, set()).add(_kind(value))
    return {
        name: next((kind for kind, among in _COMMON.items() if kinds - {"NoneType"} <= among), _TEXT)
        for name, kinds in found.items()
    }


def _kind(value: Any) -> str:
    kind = type(value).__name__
    if kind == "int" and abs(value) > _EXACT:
        return "long" if -(2**63) <= value < 2**63 else _TEXT
    return _TEXT if kind in {"dict", "list"} or (kind == "str" and value != _spelled(value)) else kind


def _spelled(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()  # half of a surrogate pair is in no text of Arrow


def _groups(lines: Path) -> Iterator[Sequence[JSONObject]]:
    with lines.open("rb") as file:
        while lines_read := file.readlines(8_000_000):  # bytes, that are held at a time
            yield [json.loads(line) for line in lines_read]
