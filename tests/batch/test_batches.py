"""Every kind of batch comes back as it was given.

Its own columns are unchanged, and the result columns follow them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest

import strictreply as sr
from strictreply.batch import ROW_CODES
from strictreply.batch._results import RowCode
from support.batch.topics import CONTRACT, PRICE, Model
from support.scripted import completion

TEXTS = ["one", "bad", "refuse"]


@pytest.fixture
def ask() -> Iterator[sr.batch.Rows]:
    """A row function over a model in memory."""
    asking = sr.batch.rows(CONTRACT, model="m", messages="text", client=Model)
    yield asking
    asking.close()


def columns_of(batch: Any) -> dict[str, list[Any]]:
    """Read a batch by columns."""
    return {name: list(column) for name, column in batch.items()}


def of_arrow(columns: dict[str, Any]) -> Any:
    """Make a table of Arrow, or skip."""
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed here").table(columns)


def of_pandas(columns: dict[str, Any]) -> Any:
    """Make a frame of pandas, or skip; its index is not the usual one."""
    frame = pytest.importorskip("pandas", reason="pandas is not installed here").DataFrame(columns)
    return frame.set_index(frame.index + 7)


def of_numpy(columns: dict[str, Any]) -> Any:
    """Make columns of arrays, as Ray Data gives them, or skip."""
    numpy = pytest.importorskip("numpy", reason="numpy is not installed here")
    return {name: numpy.array(values) for name, values in columns.items()}


FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], dict[str, list[Any]]]]] = {
    "columns": (dict, columns_of),
    "numpy": (of_numpy, columns_of),
    "arrow": (of_arrow, lambda table: dict(table.to_pydict())),
    "pandas": (of_pandas, lambda frame: dict(frame.to_dict("list"))),
}


@pytest.mark.parametrize("form", FORMS)
def test_columnar_batches(ask: sr.batch.Rows, form: str) -> None:
    """In a batch of columns, replies and issues are JSON text; the kind, the order and the own
    columns stay.
    """
    make, read = FORMS[form]
    batch = make({"text": TEXTS, "number": [1, 2, 3]})
    done = ask(batch)
    assert type(done) is type(batch)

    columns = read(done)
    assert list(columns) == ["text", "number", *sr.batch.COLUMNS]
    assert (columns["text"], columns["number"]) == (TEXTS, [1, 2, 3])
    assert columns["status"] == ["ok", "fixed", "rejected"]

    assert [json.loads(text) for text in columns["reply"][:2]] == [PRICE, PRICE]
    assert not isinstance(columns["reply"][2], str)  # None, or what pandas has for it
    assert columns["attempts"] == [1, 2, 4]
    assert json.loads(columns["issues"][1])[0]["code"] == "answer.enum"

    assert columns["usage"][1]["total_tokens"] == 30
    assert list(read(make({"text": TEXTS, "number": [1, 2, 3]}))) == list(read(batch)), (
        "the batch itself is unchanged"
    )


def test_the_usage_of_a_row_has_the_same_members_in_a_column_of_arrow(
    ask: sr.batch.Rows,
) -> None:
    """A table has the three counts and whether they are estimated, as a row of a list has."""
    (row,) = ask([{"text": "one"}])
    table = ask(of_arrow({"text": ["one"]}))
    kind = table.schema.field("usage").type
    assert [kind.field(at).name for at in range(kind.num_fields)] == list(row["usage"])
    assert table.to_pydict()["usage"] == [row["usage"]]


@pytest.mark.parametrize("form", FORMS)
def test_half_a_surrogate_pair_in_a_reply(form: str) -> None:
    """No kind of batch fails for any text that a model writes."""

    class Half(Model):
        async def create(self, **_: Any) -> dict[str, Any]:
            return completion("half \ud83d")

    make, read = FORMS[form]
    ask = sr.batch.rows(sr.Contract(), model="m", messages="text", client=Half)
    done = read(ask(make({"text": ["a"]})))
    ask.close()

    assert [json.loads(reply) for reply in done["reply"]] == [{"answer": "half \ud83d"}]


@pytest.mark.parametrize("form", FORMS)
def test_empty_batches(ask: sr.batch.Rows, form: str) -> None:
    """A batch without rows comes back with the result columns, and nobody is asked."""
    make, read = FORMS[form]
    assert list(read(ask(make({"text": []})))) == ["text", *sr.batch.COLUMNS]


def test_a_list_of_rows_is_not_changed(ask: sr.batch.Rows) -> None:
    """The caller's list and its rows are as they were."""
    batch: list[dict[str, Any]] = [{"text": "one"}]
    ask(batch)
    assert batch == [{"text": "one"}]
    assert ask([]) == []


@pytest.mark.parametrize("form", ["rows", *FORMS])
def test_a_column_that_is_taken(ask: sr.batch.Rows, form: str) -> None:
    """A batch with a column named like a result is refused before anything is asked; a prefix names
    them otherwise.
    """
    model: Any = Model()
    columns = {"text": ["one"], "status": ["new"]}
    batch: Any = (
        [{"text": "one"}, {"text": "two", "status": "new"}]
        if form == "rows"
        else FORMS[form][0](columns)
    )

    with pytest.raises(sr.ContractError, match="prefix="):
        sr.batch.rows(CONTRACT, model="m", messages="text", client=model)(batch)

    assert not model.requests
    prefixed = sr.batch.rows(CONTRACT, model="m", messages="text", client=model, prefix="out_")
    done = prefixed(batch)
    prefixed.close()

    row = (
        done[1]
        if form == "rows"
        else {name: values[0] for name, values in FORMS[form][1](done).items()}
    )
    assert (row["status"], row["out_status"]) == ("new", "ok")


@pytest.mark.parametrize("wrong", ["text", 7, None, iter([]), {"a": [1], "b": [1, 2]}])
def test_what_is_no_batch(ask: sr.batch.Rows, wrong: Any) -> None:
    """Anything else is refused, with the types that are accepted."""
    with pytest.raises((TypeError, sr.ContractError), match=r"batch"):
        ask(wrong)


def test_messages_in_arrays(ask: sr.batch.Rows) -> None:
    """A cell that is an array or a value of numpy is read as what it holds."""
    numpy = pytest.importorskip("numpy", reason="numpy is not installed here")
    turns = numpy.empty(1, dtype=object)
    turns[0] = {"role": "user", "content": "x"}
    assert [row["status"] for row in ask([{"text": turns}, {"text": numpy.str_("y")}])] == [
        "ok",
        "ok",
    ]


def test_a_frame_keeps_what_is_not_there() -> None:
    """A missing text in a frame is absent, and a reply that did not come is None, not NaN."""
    frame = of_pandas({"text": ["good", None, float("nan"), "down"]})
    ask = sr.batch.rows(CONTRACT, model="m", messages="text", client=Model)
    done = ask(frame).to_dict("list")
    ask.close()
    assert done["reply"][1:] == [None, None, None]
    assert [json.loads(issues)[0]["code"] for issues in done["issues"][1:3]] == ["row.messages"] * 2


def test_every_code_of_a_row_has_words() -> None:
    """The table of codes, from which the page is written, has each that a row can have."""
    assert set(ROW_CODES) == set(get_args(RowCode))


@pytest.mark.parametrize("name", ["append_column", "to_pylist"])
def test_a_frame_may_have_columns_of_any_name(ask: sr.batch.Rows, name: str) -> None:
    """A column of a frame, which is an attribute of it, too, is never taken for the method of
    another kind of batch.
    """
    done = ask(of_pandas({"text": ["one"], name: [1]}))
    assert list(done.columns) == ["text", name, *sr.batch.COLUMNS]
