"""The user's own checks of valid calls.

They say when checks run, what they are given, what becomes of what they find.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from strictreply import Category, Contract, ContractError, Invalid, Issue, Tool, ToolCall, Valid
from support.openai_shapes import call, message

SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
Found = Iterable[Issue] | None


class Refund(BaseModel):
    """A tool declared by a model."""

    order: str


class WrongAccount(ValueError):
    """A complaint of the user's own kind."""


@dataclass
class Log:
    """A check that keeps what it was given."""

    given: list[Any]

    def __call__(self, args: Any) -> None:
        """Find nothing."""
        self.given.append(args)


def contract(check: Callable[[Any], Any], **more: Any) -> Contract:
    """Declare one tool with a check."""
    return Contract(tools=[Tool.from_json_schema("refund", SCHEMA, check=check)], **more)


def reply(order: object = "a1") -> dict[str, Any]:
    """Call the tool."""
    return message(None, [call("refund", {"order": order})])


def faults(verdict: object) -> list[tuple[str, str]]:
    """Return the code and path of every fault of a refused reply."""
    assert isinstance(verdict, Invalid)
    return [(issue.code, issue.path) for issue in verdict.issues]


def raising(args: Any) -> None:
    """Complain by raising."""
    raise WrongAccount(f"order {args['order']} is of another account")


def returning(args: Any) -> list[Issue]:
    """Complain by returning an issue of the user's own code."""
    return [
        Issue(
            "account.wrong",
            Category.PERMISSION_ERROR,
            "/order",
            "is of another account",
            found=args["order"],
        )
    ]


def generating(args: Any) -> Iterator[Issue]:
    """Complain by yielding."""
    yield from returning(args)


async def araising(args: Any) -> None:
    """Complain by raising, after an await."""
    await asyncio.sleep(0)
    raising(args)


async def areturning(args: Any) -> list[Issue]:
    """Complain by returning, after an await."""
    await asyncio.sleep(0)
    return returning(args)


ARGUMENTS = "/tool_calls/0/function/arguments"
COMPLAINTS = [
    pytest.param(raising, ("args.check", ARGUMENTS), id="raising"),
    pytest.param(returning, ("account.wrong", f"{ARGUMENTS}/order"), id="returning"),
    pytest.param(generating, ("account.wrong", f"{ARGUMENTS}/order"), id="generating"),
]
ASYNC_COMPLAINTS = [
    pytest.param(araising, ("args.check", ARGUMENTS), id="async-raising"),
    pytest.param(areturning, ("account.wrong", f"{ARGUMENTS}/order"), id="async-returning"),
]


@pytest.mark.parametrize(("check", "expected"), COMPLAINTS)
def test_what_a_check_finds_refuses_the_reply(
    check: Callable[[Any], Found], expected: tuple[str, str]
) -> None:
    """A check complains by raising ValueError, returning issues or yielding them; the place is the
    call's arguments.
    """
    assert faults(contract(check).check(reply())) == [expected]


@pytest.mark.parametrize(("check", "expected"), [*COMPLAINTS, *ASYNC_COMPLAINTS])
def test_acheck_takes_both_kinds(
    check: Callable[[Any], Found | Awaitable[Found]], expected: tuple[str, str]
) -> None:
    """``acheck`` awaits what is async and takes what is not."""
    assert faults(asyncio.run(contract(check).acheck(reply()))) == [expected]


@pytest.mark.parametrize("check", [araising, areturning])
def test_an_async_check_needs_acheck(check: Callable[[Any], Awaitable[Found]]) -> None:
    """A sync check of the reply cannot await, and says so instead of passing it."""
    with pytest.raises(ContractError):
        contract(check).check(reply())


def test_the_text_channel_points_to_its_arguments() -> None:
    """The same check reports in the channel's own places."""
    verdict = contract(returning, channel="text").check('{"tool":"refund","args":{"order":"a1"}}')
    assert faults(verdict) == [("account.wrong", "/args/order")]


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_a_check_finds_nothing(nothing: object) -> None:
    """A check that returns None or no issues lets the reply through."""
    assert contract(lambda _: nothing).check(reply()) == Valid(
        ToolCall("refund", {"order": "a1"}, "call_1")
    )


def test_checks_run_on_typed_arguments() -> None:
    """A check is given what the program would be given: the model's instance, or the dict."""
    log = Log([])
    tools = [Tool.from_model(Refund, check=log), Tool.from_json_schema("refund", SCHEMA, check=log)]
    calls = [call("Refund", {"order": "a"}, "1"), call("refund", {"order": "b"}, "2")]
    assert isinstance(Contract(tools=tools, parallel=True).check(message(None, calls)), Valid)
    assert log.given == [Refund(order="a"), {"order": "b"}]


def spoiling(args: Any) -> None:
    """Change what it is given, at two depths."""
    args["evil"] = 1
    args["lines"].append("evil")


async def aspoiling(args: Any) -> None:
    """Change what it is given, after an await."""
    await asyncio.sleep(0)
    spoiling(args)


@pytest.mark.parametrize("check", [spoiling, aspoiling])
def test_a_check_cannot_change_what_was_judged(check: Callable[[Any], Any]) -> None:
    """A check is given a copy: what it does to it does not come out."""
    schema = {"type": "object", "properties": {"lines": {"type": "array"}}}
    declared = Contract(tools=[Tool.from_json_schema("order", schema, check=check)])
    verdict = asyncio.run(declared.acheck(message(None, [call("order", {"lines": [1]})])))
    assert verdict == Valid(ToolCall("order", {"lines": [1]}, "call_1"))


class Uncopied:
    """A value that has no copy."""

    def __deepcopy__(self, memo: object) -> Uncopied:
        """Refuse, as locks and generators do."""
        raise TypeError


class Holding(BaseModel):
    """Arguments whose validator makes what has no copy."""

    order: Annotated[Any, AfterValidator(lambda _: Uncopied())]


def test_arguments_that_cannot_be_copied() -> None:
    """If arguments cannot be copied for a check, the declaration is wrong; unchecked they pass."""
    reply = message(None, [call("Holding", {"order": "a"})])
    with pytest.raises(ContractError, match="Holding"):
        Contract(tools=[Tool.from_model(Holding, check=Log([]))]).check(reply)
    assert isinstance(Contract(tools=[Tool.from_model(Holding)]).check(reply), Valid)


def test_checks_run_only_on_valid_replies() -> None:
    """No check sees arguments that do not fit, nor those of a call beside one that does not."""
    log = Log([])
    guarded = contract(log, parallel=True)
    assert isinstance(guarded.check(reply(5)), Invalid)
    calls = [call("refund", {"order": "a"}, "1"), call("refund", {}, "2")]
    assert isinstance(guarded.check(message(None, calls)), Invalid)
    assert log.given == []


def test_every_call_is_checked() -> None:
    """Each call of a reply is checked by its own tool, and all that is found is reported at its
    place.
    """
    calls = [call("refund", {"order": "a"}, "1"), call("refund", {"order": "b"}, "2")]
    assert faults(contract(returning, parallel=True).check(message(None, calls))) == [
        ("account.wrong", "/tool_calls/0/function/arguments/order"),
        ("account.wrong", "/tool_calls/1/function/arguments/order"),
    ]


def test_a_checks_words_hold_nothing_of_the_model() -> None:
    """The message of a check is shown without the values of the arguments."""
    verdict = contract(raising).check(reply("CANARY-7f3a"))
    assert isinstance(verdict, Invalid)
    assert "CANARY" not in repr(verdict)
    assert "CANARY" not in verdict.summary


def test_leniency_survives_a_check() -> None:
    """A reply that was forgiven its fence says so also when a check refuses it."""
    fenced = '```\n{"tool":"refund","args":{"order":"a1"}}\n```'
    verdict = contract(returning, channel="text", extraction="fenced").check(fenced)
    assert isinstance(verdict, Invalid)
    assert verdict.lenient == ("fenced",)


def test_a_bug_in_a_check_is_the_users() -> None:
    """An exception other than ValueError is raised unchanged."""

    def buggy(args: Any) -> None:
        """Look for what is not there."""
        raise KeyError(args.get("nothing", "nothing"))

    with pytest.raises(KeyError):
        contract(buggy).check(reply())


@pytest.mark.parametrize("found", [True, 3, "bad", [None], ["bad"]])
def test_a_check_returns_issues_or_none(found: object) -> None:
    """Any other result is a mistake in the check, and is reported as such."""
    with pytest.raises(ContractError):
        contract(lambda _: found).check(reply())


class Unspeakable(ValueError):
    """A ValueError whose own code fails when it is spelled."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError("no words")


class Endless(ValueError):
    """A ValueError whose text has 100 MB."""

    def __str__(self) -> str:
        """Return a text that echoes too much."""
        return "word " * 20_000_000


class NoText(ValueError):
    """A ValueError whose ``__str__`` returns no text."""

    def __str__(self) -> str:
        """Return a number, which is no text."""
        return 7  # type: ignore[return-value] # noqa: PLE0307 - what is tested


class Sly(str):
    """A text that fails when it is cut."""

    __slots__ = ()

    def __getitem__(self, key: object) -> str:
        """Fail."""
        raise RuntimeError("no part of it")


class Odd(ValueError):
    """A ValueError whose text is of a subclass of str."""

    def __str__(self) -> str:
        """Return the text."""
        return Sly("not now")


ODD_ERRORS: list[ValueError] = [
    *(Unspeakable(), Endless(), NoText(), Odd(), ValueError(), ValueError(object())),
    *(ValueError(10**5_000), ValueError(b"\xff", {1: ...}), ValueError("\ud800")),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
]


@pytest.mark.parametrize("error", ODD_ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("way", ["raised", "generated", "awaited"])
def test_v14_a_verdict_that_cannot_be_spelled_is_one(error: ValueError, way: str) -> None:
    """Any ValueError, even one whose text fails, is one short issue of the code ``args.check``."""

    def check(args: Any) -> Any:
        """Refuse."""
        raise error

    def generated(args: Any) -> Any:
        """Refuse once it is read."""
        yield from ()
        raise error

    async def awaited(args: Any) -> Any:
        """Refuse once it is awaited."""
        raise error

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    checks: dict[str, Any] = {"raised": check, "generated": generated, "awaited": awaited}
    tool = Tool.from_json_schema("take", schema, check=checks[way])
    verdict = asyncio.run(Contract(tools=[tool]).acheck(message(None, [call("take", {"n": 1})])))
    assert isinstance(verdict, Invalid)

    assert [issue.code for issue in verdict.issues] == ["args.check"]
    assert 0 < len(verdict.issues[0].message) <= 250
