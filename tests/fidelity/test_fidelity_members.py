"""What a tool gets is what was judged: each member is taken by a field, or there is an issue."""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
import json
import pathlib
import re
from collections.abc import Generator, Iterable
from typing import Annotated, Any, Literal, NamedTuple

import pytest
import typing_extensions
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    Base64Str,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    FilePath,
    HttpUrl,
    Json,
    OnErrorOmit,
    StringConstraints,
    Tag,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import to_jsonable_python

import strictreply as sr
from strictreply.contract._early_stop import EarlyStop
from strictreply.contract._fidelity.core_schemas import KNOWS_EXTRA
from strictreply.core import JSON, Extra
from support.fidelity.typed_samples import BEYOND
from support.scripted import completion

LOST = "args.not_representable"
LEFT_TO_RIGHT = Field(union_mode="left_to_right")


class Options(BaseModel):
    """A model whose members are all optional."""

    limit: int = 5
    sort: str | None = None


class City(BaseModel):
    """A place by name."""

    city: str = ""


class Zip(BaseModel):
    """A place by number."""

    zip: str = ""


class Allowing(BaseModel):
    """A model that keeps other members."""

    model_config = ConfigDict(extra="allow")
    limit: int = 5


class First(BaseModel):
    """A model whose code sees the JSON first, and adds to it."""

    limit: int = 5

    @model_validator(mode="before")
    @classmethod
    def noted(cls, data: Any) -> Any:
        """Add a member that no field takes."""
        return {**data, "_seen": True} if isinstance(data, dict) else data


class Small(BaseModel):
    """A model that refuses large numbers."""

    size: int = 0

    @field_validator("size")
    @classmethod
    def is_small(cls, size: int) -> int:
        """Refuse a large one."""
        assert size < 10
        return size


class Large(BaseModel):
    """A model that takes them, as floats."""

    size: float = 0


class Typed(typing_extensions.TypedDict, total=False):
    """A TypedDict."""

    a: int


@dataclasses.dataclass
class Data:
    """A dataclass with a member that only code sets."""

    a: int = 0
    b: int = dataclasses.field(init=False, default=7)


class Pair(NamedTuple):
    """A named tuple."""

    a: int
    b: int = 1


class Level(enum.IntEnum):
    """Whole numbers with names."""

    LOW = 1


class Opened(BaseModel):
    """A model whose schema is shown open."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})
    a: int = 1


class Holding(BaseModel):
    """A model that holds one whose schema is shown open."""

    it: Annotated[Options, WithJsonSchema({"type": "object"})]


class ByName(BaseModel):
    """A model that is read by the names of its fields."""

    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)
    a: int = Field(1, alias="z")


class Deep(BaseModel):
    """A model that reads a field from a deeper place."""

    limit: int = Field(5, validation_alias=AliasPath("meta", "limit"))


class Named(BaseModel):
    """A model whose field has several names."""

    model_config = ConfigDict(populate_by_name=True)
    limit: int = Field(5, validation_alias=AliasChoices("most", "max"))


IN_TEXT: Any = Annotated[Options | dict[str, Any], Json]


def judged(kind: Any, value: Any, extra: Extra = "forbid") -> Any:
    """Return what a tool gets for an argument of a type, or the verdict."""
    tool = sr.Tool.from_model(create_model("Taking", it=(kind, ...)), extra=extra)
    function = {"name": "Taking", "arguments": json.dumps({"it": value})}
    reply = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    verdict = sr.Contract(tools=[tool], extra=extra).check(reply)
    return verdict.reply.calls[0].args.it if isinstance(verdict, sr.Valid) else verdict


def faults(verdict: Any) -> list[tuple[str, str]]:
    """Return the codes and places of a refusal, below the argument."""
    assert isinstance(verdict, sr.Invalid), verdict
    at = "/tool_calls/0/function/arguments/it"
    return [(issue.code, issue.path.removeprefix(at)) for issue in verdict.issues]


@pytest.mark.parametrize(
    ("kind", "value", "lost"),
    [
        (Options | dict[str, Any], {"limit": 3, "owner": "bob"}, "/*"),
        (dict[str, int] | Options, {"limit": 1, "x": 5}, "/*"),
        (Typed | dict[str, int], {"b": 1}, "/*"),
        (Data | dict[str, int], {"a": 1, "b": 2}, "/*"),
        (Options | Any, {"limit": 3, "owner": "bob"}, "/*"),
        (list[Options | dict[str, str]], [{"x": "1"}], "/0/*"),
        (Annotated[City | Zip, LEFT_TO_RIGHT], {"zip": "1"}, "/zip"),
        (dict[str, list[City | Zip | dict[str, int]]], {"k": [{"n": 1}]}, "/*/0/*"),
        (Named | dict[str, int], {"most": 1, "max": 2}, "/*"),
        (First | dict[str, Any], {"limit": 3, "owner": "bob"}, "/*"),
        (IN_TEXT, '{"limit": 3, "owner": "bob"}', ""),
    ],
    ids=str,
)
def test_v1_a_union_gives_the_branch_that_takes_every_member(
    kind: Any, value: JSON, lost: str
) -> None:
    """The branch that takes all members is built; a pydantic that cannot be told to is refused."""
    made = judged(kind, value)
    if not KNOWS_EXTRA and isinstance(made, sr.Invalid):
        assert faults(made) == [(LOST, lost)]
        return

    wanted = json.loads(value) if isinstance(value, str) else value
    assert to_jsonable_python(made) == wanted


def test_v1_a_member_that_no_branch_would_keep_is_named() -> None:
    """Beside a model that keeps other members, pydantic's choice of another is an issue there."""
    verdict = judged(Options | Allowing, {"limit": 3, "owner": "bob"})
    assert faults(verdict) == [(LOST, "/*")]
    assert verdict.issues[0].found == '"owner"'
    assert "bob" not in verdict.issues[0].message
    assert judged(Options | Allowing, {"limit": 3}) == Options(limit=3)


def test_v1_the_branch_is_told_by_what_was_built() -> None:
    """Where a user's check refuses the first branch, the second is held to its own type."""
    kind = Annotated[Small | Large, LEFT_TO_RIGHT]
    assert judged(kind, {"size": 11}) == Large(size=11)
    assert judged(kind, {"size": 9}) == Small(size=9)
    assert faults(judged(kind, {"size": BEYOND})) == [(LOST, "/size")]


def test_members_that_a_users_code_adds_are_its_own() -> None:
    """What was not in the JSON is not lost when pydantic leaves it out."""
    assert judged(First | City, {"limit": 3}) == First(limit=3)


@pytest.mark.parametrize(
    ("kind", "value", "made"),
    [
        (Pair, [1], Pair(1)),
        (Pair | dict[str, int], {"a": 2}, Pair(2)),
        (Annotated[Pair | dict[str, int], LEFT_TO_RIGHT], {"c": 2}, {"c": 2}),
        (dict[Level, int], {"1": 5}, {Level.LOW: 5}),
        (Json[dict[str, int]], '{"a": 1}', {"a": 1}),
        (Data, {"a": 1}, Data(1)),
        (ByName, {"a": 2}, ByName.model_validate({"a": 2})),
        (ByteSize, "1.5KB", 1500),
        (complex, "1+2j", 1 + 2j),
        (re.Pattern[str], "a+", re.compile("a+")),
        (set[Annotated[int, AfterValidator(abs)]], [1, -2], {1, 2}),
    ],
    ids=str,
)
def test_what_is_taken_whole_is_built(kind: Any, value: JSON, made: Any) -> None:
    """JSON of which nothing is lost is built."""
    assert judged(kind, value) == made


@pytest.mark.parametrize(
    ("kind", "value", "code", "place"),
    [
        (Data, {"a": 1, "b": 9}, "args.extra_key", ""),
        (Deep, {"limit": 7}, "args.no_keys", ""),
        (Named, {"max": 7}, "args.extra_key", ""),
        (ByName, {"z": 7}, "args.extra_key", ""),
        (Opened, {"a": 1, "x": 2}, LOST, "/*"),
        (Opened | None, {"x": 2}, LOST, "/*"),
        (Holding, {"it": {"limit": 1, "x": 2}}, LOST, "/it/*"),
        (Deep | dict[str, dict[str, int]] | Allowing, {"meta": {"limit": 1, "x": 2}}, LOST, "/*/*"),
        (list[OnErrorOmit[ipaddress.IPv4Network]], ["1.2.3.4", "none"], LOST, ""),
    ],
    ids=str,
)
def test_v2_a_member_that_no_field_takes_is_an_issue(
    kind: Any, value: JSON, code: str, place: str
) -> None:
    """What only code sets, another name, a deeper place or an open schema: never silently lost."""
    assert (code, place) in faults(judged(kind, value))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            create_model("M", limit=(int, Field(validation_alias=AliasPath("meta", "limit")))),
            "'limit'",
        ),
        (type[int], "class"),
        (dict[Literal[1, 2], int], "keys"),
        (dict[tuple[int, int], int], "keys"),
        (
            create_model(
                "M",
                __config__=ConfigDict(json_schema_extra={"required": ["q"]}),
                a=(int, 1),
            ),
            "'q'",
        ),
    ],
    ids=str,
)
def test_v2_a_type_that_can_never_be_filled_is_refused_when_it_is_declared(
    kind: Any, words: str
) -> None:
    """No retry is paid for a type that JSON of its own schema cannot make."""
    with pytest.raises(sr.ContractError, match=words):
        judged(kind, {})


def test_v2_a_type_taken_as_written_leaves_out_what_it_is_configured_to() -> None:
    """With ``extra="schema"`` a member is left out only where no branch of a union takes it."""
    assert judged(Options, {"limit": 3, "x": 1}, "schema") == Options(limit=3)
    assert judged(Allowing, {"x": 1}, "schema").model_extra == {"x": 1}
    if KNOWS_EXTRA:
        kind = Options | dict[str, int]
        assert judged(kind, {"limit": 3, "x": 1}, "schema") == {"limit": 3, "x": 1}


LOWER = Annotated[str, StringConstraints(to_lower=True)]


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (ipaddress.IPv4Interface, "1.2.3.4", "1.2.3.4/32"),
        (ipaddress.IPv6Address, "::1", "0:0:0:0:0:0:0:1"),
        (ipaddress.IPv4Network, "1.2.3.4", "1.2.3.4/32"),
        (ipaddress.IPv6Interface, "::1", "::1/128"),
        (pathlib.Path, "a/b", "a//b"),
        (pathlib.PurePosixPath, "a", "./a"),
        (HttpUrl, "http://a.b", "http://A.b/"),
        (Base64Str, "aGk=", "aGl="),
        (ByteSize, "1KB", "1000"),
        (LOWER, "A", "a"),
        (Annotated[str, AfterValidator(str.strip)], "a", " a"),
        (Annotated[ipaddress.IPv6Address | str, LEFT_TO_RIGHT], "::1", "0:0:0:0:0:0:0:1"),
    ],
    ids=str,
)
def test_v3_two_members_that_become_one_are_a_fault(kind: Any, one: str, other: str) -> None:
    """No key and no item is merged, by the type or by a user's code."""
    for judged_kind, value in (
        (dict[kind, int], {one: 1, other: 2}),
        (set[kind], [one, other]),
        (frozenset[kind], [one, other]),
    ):
        assert LOST in dict(faults(judged(judged_kind, value)))
        assert len(judged(judged_kind, {one: 1} if isinstance(value, dict) else [one])) == 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pathlib.Path, "http://a.b/"),
        (pathlib.Path, "a/"),
        (ByteSize, "1.5"),
        (ByteSize, "1 KB and more"),
        (complex, "1e999"),
        (complex, f"{BEYOND}j"),
        (Annotated[float | str | HttpUrl, LEFT_TO_RIGHT], "nan"),
        (Annotated[int | str, LEFT_TO_RIGHT] | HttpUrl, "1"),
        (int | Base64Str, "12"),
        (Annotated[ipaddress.IPv4Address | int, LEFT_TO_RIGHT], 5),
        (Annotated[complex | ipaddress.IPv4Address | str, LEFT_TO_RIGHT], "nan"),
    ],
    ids=str,
)
def test_v3_another_value_is_a_fault(kind: Any, value: JSON) -> None:
    """No text is changed, no number rounded, no scalar read as one of another type."""
    assert LOST in dict(faults(judged(kind, value)))


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (Json[dict[str, int]], '{"a": "1"}', "at /*: must be an integer"),
        (Json[dict[str, int]], '{"a": true}', "at /*: must be an integer"),
        (Json[Options], '{"limit": 1, "x": 2}', 'allowed: "limit", "sort"'),
        (Json[set[int]], "[1, 1]", "must have no two equal items"),
        (Json[list[Json[dict[str, int]]]], '["{\\"a\\": \\"1\\"}"]', "holds JSON"),
    ],
    ids=str,
)
def test_v4_json_in_a_text_is_held_to_its_schema(kind: Any, text: str, words: str) -> None:
    """Nothing inside of a text is coerced, and its objects are closed."""
    verdict = judged(kind, text)
    assert faults(verdict) == [(LOST, "")]
    assert words in verdict.issues[0].message


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (re.Pattern, "a{99999999999}", ""),
        (list[re.Pattern[str]], ["a", "(" * 5000 + ")" * 5000], "/1"),
        (FilePath, "x" * 5000, ""),
        (dict[str, FilePath | int], {"a": "x" * 5000}, "/*"),
    ],
    ids=["pattern", "patterns", "file", "files"],
)
def test_v6_what_pydantic_raises_for_a_models_text_is_an_issue(
    kind: Any, value: JSON, place: str
) -> None:
    """No exception of somebody else's escapes for what a model wrote."""
    assert faults(judged(kind, value))[0] == ("args.check", place)


def test_v6_what_a_users_code_raises_is_raised() -> None:
    """An exception of the user's own code is not the model's fault."""

    def broken(_: int) -> int:
        """Raise."""
        raise OverflowError

    with pytest.raises(OverflowError):
        judged(Annotated[int, AfterValidator(broken)], 1)
    with pytest.raises(OverflowError):
        judged(tuple[re.Pattern[str], Annotated[int, AfterValidator(broken)]], ["a", 1])


class Answer(BaseModel):
    """An answer that is shown while it is written."""

    where: Options | dict[str, Any]
    most: int = Field(0, validation_alias=AliasChoices("top", "max"))
    rows: list[City | Zip | dict[str, int]] = []


@pytest.mark.parametrize("open_chars", [0, 1])
def test_v1_a_part_of_an_answer_holds_what_was_judged(open_chars: int) -> None:
    """A streamed part shows no value that lost a member, and each member under its name."""
    value = {"where": {"limit": 3, "owner": "bob"}, "top": 4, "rows": [{"n": 1}, {"zip": "1"}]}
    text = json.dumps(value)
    early_stop = EarlyStop(sr.Contract(answer=Answer))
    assert early_stop.text(text[: len(text) - open_chars]) is None
    partial: Any = early_stop.partial()
    if KNOWS_EXTRA:
        assert partial.answer.where == value["where"]
        assert partial.answer.most == 4
        assert partial.answer.rows == [{"n": 1}, Zip(zip="1")]
    else:
        assert not hasattr(partial.answer, "where")


def refuse_two(number: int) -> int:
    """Refuse one number, as a user's check."""
    if number == 2:
        raise ValueError("not that one")
    return number


Checked = Annotated[int, AfterValidator(refuse_two)]


class Rows(BaseModel):
    """A model with items that pydantic would read late."""

    rows: Iterable[Checked]
    default: Iterable[Checked] = ()


class Table(BaseModel):
    """The same inside another model."""

    inner: Rows


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (Iterable[Checked], "[{}]"),
        (Iterable[Iterable[Checked]], "[[{}]]"),
        (Rows, '{{"rows":[{}]}}'),
        (Rows, '{{"rows":[],"default":[{}]}}'),
        (Table, '{{"inner":{{"rows":[{}]}}}}'),
        (Iterable[Checked] | str, "[{}]"),
        (Generator[Checked, None, None], "[{}]"),
    ],
)
def test_items_of_an_iterable_are_read_at_once(kind: Any, shape: str) -> None:
    """What the type refuses is an issue, not an exception in the program that takes the items, and
    they can be taken as often as wanted.
    """
    contract = sr.Contract(answer=kind)
    refused = contract.check(completion(shape.format(2)))
    assert isinstance(refused, sr.Invalid)
    assert refused.issues[0].code == "answer.check"

    valid = contract.check(completion(shape.format(1)))
    assert isinstance(valid, sr.Valid)
    assert isinstance(valid.reply, sr.DirectAnswer)
    assert to_jsonable_python(valid.reply.answer) == to_jsonable_python(valid.reply.answer)
    assert "1" in json.dumps(to_jsonable_python(valid.reply.answer))


class Apple(BaseModel):
    """A form without a member of its own."""

    k: str = "a"
    x: int = 0


class Pear(BaseModel):
    """A form that fits what fits the other, too."""

    k: str = "b"
    y: int = 0


def form_of(value: Any) -> str:
    """Tell the forms apart."""
    return str(value.get("k", "a") if isinstance(value, dict) else value.k)


Fruit = Annotated[
    Annotated[Apple, Tag("a")] | Annotated[Pear, Tag("b")],
    Discriminator(form_of),
]


def test_a_function_tells_forms_apart_that_overlap() -> None:
    """Of forms that a function tells apart several may fit: what it chooses is built."""
    built = typed(Fruit, {"k": "b", "y": 1})
    assert built == Pear(y=1)
    assert typed(Fruit, {"k": "b"}) == Pear()
    assert typed(Fruit, {}) == Apple()
    assert isinstance(typed(Fruit, {"y": 1}), sr.Invalid)

    refused = typed(Fruit, {"k": "c"})
    assert isinstance(refused, sr.Invalid)
    assert [issue.path for issue in refused.issues] == ["/content"]


def test_objects_are_no_keys() -> None:
    """A key of JSON is a text, of which no model is made: nothing of the kind is declared."""
    row = dataclasses.make_dataclass("Row", [("a", int)], frozen=True)
    for kind in (dict[Apple, int], dict[row, int]):  # type: ignore[valid-type]
        with pytest.raises(sr.ContractError, match="keys that no JSON can have"):
            sr.Contract(answer=kind)

    place = Annotated[tuple[int, ...], BeforeValidator(lambda text: text.split(","))]
    assert typed(dict[place, int], {"1,2": 3}) == {(1, 2): 3}


class Way(enum.Enum):
    """Values of which JSON has one alone."""

    LEFT = "left"
    PLACE = (1, 2)


def test_values_that_no_json_has_are_not_shown() -> None:
    """What is never read from JSON is shown to no model; where nothing is left, nothing is
    declared.
    """
    contract = sr.Contract(answer=Way)
    refused = contract.check(completion("[1,2]"))
    assert isinstance(refused, sr.Invalid)
    assert "[1" not in refused.issues[0].message
    assert typed(Way, "left") is Way.LEFT
    assert typed(Literal["a", b"b"], "a") == "a"

    for kind in (Literal[Way.LEFT], Literal[b"b"], list[Literal[b"b"]]):
        with pytest.raises(sr.ContractError, match="values that no JSON has"):
            sr.Contract(answer=kind)


def typed(kind: Any, judged: JSON) -> Any:
    """Return what an answer is built as, or why it is refused."""
    verdict = sr.Contract(answer=kind).check(completion(json.dumps(judged)))
    if isinstance(verdict, sr.Invalid):
        return verdict

    assert isinstance(verdict.reply, sr.DirectAnswer)
    return verdict.reply.answer
