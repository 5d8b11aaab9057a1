"""The kinds of batches: rows, columns, a table of Arrow, a frame of pandas; each comes back as it was given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from strictreply.batch._results import AS_TEXT, COLUMNS, RowResult
from strictreply.values._attempts import OUR_NAMES
from strictreply.values._errors import ContractError


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
        return Batch(batch.to_pylist(), lambda results: _appended(batch, _columns(results, prefix)))
    if hasattr(batch, "to_dict") and hasattr(batch, "assign"):
        _refuse_taken(batch.columns, prefix)
        return Batch(batch.to_dict("records"), lambda results: batch.assign(**_columns(results, prefix)))
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


def _refuse_taken(names: Iterable[Any], prefix: str) -> None:
    taken = {prefix + name for name in COLUMNS}
    for name in names:
        if name in taken:
            raise ContractError(
                f"the batch has a column {name!r} already, as the results have: rename it, or name the results "
                "otherwise, as in rows(…, prefix='out_')"
            )


def _rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    if len({len(column) for column in columns.values()}) > 1:
        raise ContractError("the columns of the batch differ in length: give each one value a row")
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _columns(results: Sequence[RowResult], prefix: str) -> dict[str, list[Any]]:
    """Return the results by columns, in which those without one form are JSON text."""
    rows = [result.columns for result in results]
    return {prefix + name: [_cell(name, row[name]) for row in rows] for name in COLUMNS}


def _cell(name: str, value: Any) -> Any:
    return json.dumps(value) if name in AS_TEXT and value is not None else value


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


def _appended(table: Any, columns: Mapping[str, list[Any]]) -> Any:
    for (name, values), kind in zip(columns.items(), arrow_types().values(), strict=True):
        table = table.append_column(name, arrow().array(values, kind))
    return table
