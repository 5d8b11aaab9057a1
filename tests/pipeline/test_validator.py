"""The one validator: four questions, any content.

It has no memory, changes nothing, raises nothing and does no work of its own.
"""

from __future__ import annotations

import ast
import copy
import pickle
import weakref
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strictreply as sr
from strictreply.loop.invoke_result import InvokeResult
from strictreply.loop.values import PipelineStep
from strictreply.pipeline import AgentPipelineContextValidator, list_rules
from support.loops import some
from support.pipeline.contexts import (
    ANSWERED,
    CONTINUATION,
    INITIAL,
    WALKS,
    after,
    before,
    changed,
    codes,
    plain,
    received,
    waiting,
)

TOOL = sr.Tool.from_json_schema("toolA", {"properties": {"a": {"type": "number"}}})
VALIDATORS = [
    AgentPipelineContextValidator(),
    AgentPipelineContextValidator(first_only=True),
    AgentPipelineContextValidator(
        allow_error_results=True,
        allow_server_tool_calls=True,
        profile="extended",
        tools={"toolA": TOOL},
    ),
]
VALIDATOR = VALIDATORS[0]
KNOWN = {rule.id for rule in list_rules()}
GOOD = [
    *(
        ctx
        for kind, walk in WALKS.items()
        for step in walk
        for ctx in (before(step, kind), after(step, kind))
    ),
    waiting(),
]

Entry = Callable[[AgentPipelineContextValidator, Any], InvokeResult]
ENTRIES: list[Entry] = [
    lambda validator, content: validator.validate_core(content),
    *(
        lambda validator, content, step=step: validator.validate_pre_step(content, step)
        for step in PipelineStep
    ),
    *(
        lambda validator, content, step=step: validator.validate_post_step(content, step)
        for step in PipelineStep
    ),
    lambda validator, content: validator.validate_tool_call_manifest(content),
]


def every_result(content: object) -> list[InvokeResult]:
    """Ask each validator everything about one content."""
    return [entry(validator, content) for validator in VALIDATORS for entry in ENTRIES]


@pytest.mark.req("P1")
def test_there_are_four_questions() -> None:
    """The public methods are the four entry points that the document locks, and no other."""
    public = {
        name
        for name in dir(AgentPipelineContextValidator)
        if not name.startswith("_") and callable(getattr(AgentPipelineContextValidator, name))
    }
    assert public == {
        "validate_core",
        "validate_pre_step",
        "validate_post_step",
        "validate_tool_call_manifest",
    }


@pytest.mark.req("P2")
def test_one_instance_serves_a_thousand_contexts_at_once() -> None:
    """Interleaved in threads, each answer is that of a fresh validator, and the instance is as it
    was.
    """
    shared = AgentPipelineContextValidator(tools={"toolA": TOOL})
    held = {each.name: getattr(shared, each.name) for each in fields(shared)}
    contents: list[Any] = [
        changed(ctx, {"/correlation_id": f"r{number}"} if number % 3 else {"/time_stamp": ""})
        for number, ctx in enumerate((GOOD * 1000)[:1000])
    ]
    asked = [(number % len(ENTRIES), content) for number, content in enumerate(contents)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda each: ENTRIES[each[0]](shared, each[1]), asked))

    fresh = [
        ENTRIES[which](AgentPipelineContextValidator(tools={"toolA": TOOL}), content)
        for which, content in asked
    ]
    assert found == fresh
    assert {result.successful for result in found} == {True, False}
    assert {each.name: getattr(shared, each.name) for each in fields(shared)} == held


@pytest.mark.req("P2")
def test_a_validator_holds_its_options_and_nothing_else() -> None:
    """It is frozen, has no place for more attributes, and later changes of the caller's tools do
    not reach it.
    """
    given_tools = {"toolA": TOOL}
    validator = AgentPipelineContextValidator(tools=given_tools)
    given_tools.clear()
    assert validator.tools == {"toolA": TOOL}

    with pytest.raises(AttributeError):
        validator.first_only = True  # type: ignore[misc]

    with pytest.raises((AttributeError, TypeError)):
        validator.seen = 1  # type: ignore[attr-defined]

    assert not hasattr(validator, "__dict__")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=8,
)
"""Anything that JSON can spell, and the numbers that it cannot."""


def paths_of(value: object, at: str = "") -> Iterator[str]:
    """Return the path of each member of a value, of every depth."""
    members: Mapping[Any, object] = {}

    if is_dataclass(value):
        members = {each.name: getattr(value, each.name) for each in fields(value)}
    elif isinstance(value, dict):
        members = value
    elif isinstance(value, list | tuple):
        members = dict(enumerate(value))

    for name, member in members.items():
        token = str(name).replace("~", "~0").replace("/", "~1")
        yield f"{at}/{token}"
        yield from paths_of(member, f"{at}/{token}")


@st.composite
def broken_contexts(draw: st.DrawFn) -> Any:
    """Make a good context, as a value or as JSON, and put anything into some of its members."""
    good = draw(st.sampled_from(GOOD))
    content = plain(good) if draw(st.booleans()) else good
    for _ in range(draw(st.integers(1, 4))):
        paths = sorted(paths_of(content))
        content = changed(content, {draw(st.sampled_from(paths)): draw(JSON)})
    return content


ANY = JSON | broken_contexts()


@given(ANY)
@settings(max_examples=150)
@pytest.mark.req("P3", "P4", "P7")
def test_any_content_is_judged_and_left_alone(content: Any) -> None:
    """Every entry gives a result for any content: no exception, the content as before, the same
    answer again.
    """
    snapshot = copy.deepcopy(content)
    results = every_result(content)
    assert all(isinstance(result, InvokeResult) for result in results)
    assert repr(content) == repr(snapshot)  # NaN is not equal to itself
    assert results == every_result(snapshot)


@given(ANY | st.sampled_from([ctx.tool_call_manifest for ctx in GOOD]))
@settings(max_examples=100)
def test_a_result_is_json_that_reads_back(content: Any) -> None:
    """Every result can be written as JSON and is read back equal."""
    for result in (
        VALIDATOR.validate_core(content),
        VALIDATORS[2].validate_tool_call_manifest(content),
    ):
        assert InvokeResult.from_json(result.to_json()) == result


@given(ANY)
@settings(max_examples=100)
def test_the_first_error_is_the_first_of_all(content: Any) -> None:
    """With ``first_only`` the result is the first error of the whole one."""
    for entry in ENTRIES:
        assert entry(VALIDATORS[1], content).errors == entry(VALIDATOR, content).errors[:1]


def frozen(value: Any) -> Any:
    """Make every object and list of a JSON value read-only."""
    if isinstance(value, dict):
        return MappingProxyType({name: frozen(member) for name, member in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list) else value


@pytest.mark.req("P3")
def test_a_frozen_context_is_judged_like_any_other() -> None:
    """Contexts that nothing could change, good and bad, get the results of their JSON, the
    fingerprint included.
    """
    for ctx in GOOD:
        for changes in ({}, {"/turn": None}, {"/response_payload": "x"}):
            told = changed(plain(ctx), changes)
            assert every_result(frozen(told)) == every_result(told)


@pytest.mark.req("P4")
def test_no_context_is_a_failure_of_its_own() -> None:
    """Every entry says NULL_CONTEXT, or NULL_MANIFEST; before the RequestHandler there may be none
    yet (X21).
    """
    found = [entry(VALIDATOR, None) for entry in ENTRIES]
    assert [codes(result) for result in found[:3]] == [["NULL_CONTEXT"], [], ["NULL_CONTEXT"]]
    assert {tuple(codes(result)) for result in found[2:-1]} == {("NULL_CONTEXT",)}
    assert codes(found[-1]) == ["NULL_MANIFEST"]
    assert [(error.code, bool(error.message)) for error in found[0].errors] == [
        ("NULL_CONTEXT", True)
    ]
    assert (found[0].successful, found[1].successful) == (False, True)


def nested(depth: int) -> Any:
    """Nest lists and objects deeper than any reader of JSON would."""
    value: Any = None
    for _ in range(depth):
        value = [{"tool_calls": value}]
    return value


@pytest.mark.req("P4")
def test_depth_and_size_raise_nothing() -> None:
    """Members nested 20 000 levels deep, and numbers and texts that JSON cannot spell, are content
    like any other.
    """
    for strange in (
        nested(10_000),
        10**5000,
        float("nan"),
        "\ud800",
        b"\xff",
        object(),
        {1: 2, "1": 3},
        {("a",): 1},
    ):
        for path in (
            "/session",
            "/turn/messages",
            "/built",
            "/tool_call_manifest",
            "/prompt",
            "/envelope/tool_results",
        ):
            for ctx in (
                after(PipelineStep.RESPONSE_BUILDER),
                before(PipelineStep.LLM_CLIENT, CONTINUATION),
            ):
                assert every_result(changed(ctx, {path: strange}))

        assert every_result(strange)


def fail(*_: object) -> Any:
    """Fail as an object does whose session is gone."""
    raise LookupError


SPECIAL = (
    *(
        "eq",
        "ne",
        "hash",
        "bool",
        "len",
        "iter",
        "contains",
        "getitem",
        "str",
        "repr",
        "format",
        "int",
        "index",
        "float",
    ),
    *("lt", "le", "gt", "ge", "add", "deepcopy", "reduce", "instancecheck", "subclasscheck"),
)
FAILING = {f"__{name}__": fail for name in SPECIAL}


def made_of(*bases: type, **members: Any) -> type[Any]:
    """Make a kind of objects whose own code fails, wherever it is asked.

    So does that of their class.
    """
    kind: Any = type(
        "Failing", (type(bases[0]) if bases else type,), {"__eq__": fail, "__hash__": fail}
    )
    made: type[Any] = kind("Hostile", bases, FAILING | members)
    return made


class Detached:
    """An object whose members all fail, as those of a row whose session is gone."""

    def __getattribute__(self, name: str) -> Any:
        """Fail, also for the class."""
        raise RuntimeError(name)


class Gone:
    """The target of a weak reference."""


class Recursive:
    """An object whose every member is such an object, and fails at some depth."""

    def __getattr__(self, name: str) -> Any:
        """Go on for ever."""
        return getattr(self, name + name[:1])


HOSTILE: dict[str, Any] = {
    "object": made_of()(),
    "property": made_of(
        **dict.fromkeys(("id", "type", "tool_calls", "tool_call_id", "org"), property(fail))
    )(),
    "detached": Detached(),
    "dead proxy": weakref.proxy(Gone()),
    "recursive": Recursive(),
    "mapping": made_of(UserDict, get=fail, keys=fail, items=fail)(),
    "dict": made_of(dict, get=fail, keys=fail, items=fail)(id="x"),
    "str": made_of(str, strip=fail, encode=fail, isascii=fail, replace=fail, lower=fail)("Initial"),
    "int": made_of(int)(1),
    "float": made_of(float)(1.5),
    "bytes": made_of(bytes)(b"{}"),
    "list": made_of(list, copy=fail)([1]),
    "tuple": made_of(tuple)((1,)),
    "key": {made_of(str, __hash__=str.__hash__)("id"): 1, "type": 2},
    "class": made_of(),
    "surrogate": "\ud800",
    "deep": [[[]]],
}
for _ in range(100_000):
    HOSTILE["deep"] = [HOSTILE["deep"]]

EVERY_PATH = sorted({path for ctx in GOOD for path in paths_of(ctx)})


def put(content: Any, path: str, value: object) -> Any:
    """Put a value at a path of a context, be it a value or JSON.

    The context itself is returned when it has no such path.
    """
    try:
        return changed(content, {path: value})
    except (AttributeError, IndexError, TypeError):
        return content


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.req("P4")
def test_content_whose_own_code_fails_is_an_error(hostile: str) -> None:
    """A value that raises wherever it is read breaks rules like any wrong content, alone, as a
    member or an entry.
    """
    value = HOSTILE[hostile]
    for content in (
        value,
        [value],
        {"tool_calls": value},
        {"tool_calls": [value], "tool_call_results": [value]},
    ):
        for entry in (ENTRIES[0], ENTRIES[2], ENTRIES[-1]):
            found = entry(VALIDATOR, content)
            assert found.errors
            assert {error.rule for error in found.errors} <= KNOWN
            assert InvokeResult.from_json(found.to_json()) == found

        assert every_result(content)


@given(
    st.sampled_from(GOOD),
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from(EVERY_PATH), st.sampled_from(sorted(HOSTILE))),
        min_size=1,
        max_size=3,
    ),
)
@settings(max_examples=150, deadline=None)
@pytest.mark.req("P4")
def test_members_whose_own_code_fails_raise_nothing(
    good: Any, as_json: bool, members: list[tuple[str, str]]
) -> None:
    """Wherever such a member stands, every entry gives a result that JSON carries both ways."""
    content = plain(good) if as_json else good
    for path, hostile in members:
        content = put(content, path, HOSTILE[hostile])
    for result in some(every_result(content)):
        assert {error.rule for error in result.errors} <= KNOWN
        assert InvokeResult.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    "hostile", ["object", "property", "detached", "dead proxy", "recursive", "mapping", "surrogate"]
)
@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/type", "core.type"),
        ("/correlation_id", "core.correlation_id"),
        ("/envelope/org", "core.org"),
        ("/envelope", "core.user"),
        ("/envelope/session_id", "core.initial.session_id_empty"),
        ("/envelope/tool_results", "core.initial.tool_results_empty"),
    ],
)
@pytest.mark.req("P4")
def test_a_member_that_cannot_be_read_is_neither_there_nor_missing(
    hostile: str, path: str, rule: str
) -> None:
    """It passes for no text and for no null: the rule that asks either says so."""
    content = changed(received(INITIAL), {path: HOSTILE[hostile]})
    assert rule in [error.rule for error in VALIDATOR.validate_core(content).errors]


@pytest.mark.parametrize("path", ["/outgoing_manifest", "/outgoing_manifest/tool_calls"])
def test_calls_that_cannot_be_read_are_not_taken_for_none(path: str) -> None:
    """A manifest that raises is no outcome by itself, and not the absence of calls beside an
    answer.
    """
    step = PipelineStep.LLM_CLIENT
    beside = plain(after(step)) | {"outgoing_manifest": {}}
    content = changed(beside, {path: HOSTILE["detached"]})
    assert codes(VALIDATOR.validate_post_step(content, step)) == ["BOTH"]
    assert codes(VALIDATOR.validate_post_step(content | {"response_payload": None}, step)) == [
        "NEITHER"
    ]


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.req("P8")
def test_a_step_whose_own_code_fails_is_unknown(hostile: str) -> None:
    """No step is let through by what it raises."""
    assert codes(VALIDATOR.validate_pre_step(received(INITIAL), HOSTILE[hostile])) == [
        "UNKNOWN_STEP"
    ]


@pytest.mark.parametrize(
    "step", [999, 0, -1, 81, "Nope", "", None, True, 10.0, [], {}, "80", object()]
)
@pytest.mark.req("P8")
def test_a_step_that_nobody_knows_is_an_error(step: Any) -> None:
    """An unknown step is an error for every context."""
    contents: list[Any] = [None, received(INITIAL), {}]
    for content in contents:
        assert codes(VALIDATOR.validate_pre_step(content, step)) == ["UNKNOWN_STEP"]
        assert codes(VALIDATOR.validate_post_step(content, step)) == ["UNKNOWN_STEP"]


@pytest.mark.parametrize("step", PipelineStep)
def test_a_step_is_known_by_number_and_name(step: PipelineStep) -> None:
    """The member, its number, and its name in the spelling of Python or of the document mean the
    same step.
    """
    bad = received(INITIAL)
    named = "".join(part.capitalize() for part in step.name.split("_"))
    for spelled in (
        int(step),
        step.name,
        named,
        step.name.lower(),
        named.replace("Llm", "LLM").replace("Acp", "ACP"),
    ):
        assert VALIDATOR.validate_pre_step(bad, spelled) == VALIDATOR.validate_pre_step(bad, step)
        assert VALIDATOR.validate_post_step(bad, spelled) == VALIDATOR.validate_post_step(bad, step)
        assert "UNKNOWN_STEP" not in codes(VALIDATOR.validate_pre_step(bad, spelled))


@pytest.mark.parametrize(
    ("alias", "step"),
    [
        ("SessionContextResolver", PipelineStep.AGENT_CONTEXT_RESOLVER),
        ("ContextProviderInitializer", PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER),
        ("PromptKnowledgeProviderInitializer", PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER),
    ],
)
def test_a_step_is_known_by_its_other_names(alias: str, step: PipelineStep) -> None:
    """X16: what the sister documents call a step means the same rules, and no step more."""
    bad = received(INITIAL)
    assert VALIDATOR.validate_pre_step(bad, alias) == VALIDATOR.validate_pre_step(bad, step)
    assert VALIDATOR.validate_post_step(bad, alias) == VALIDATOR.validate_post_step(bad, step)
    assert len(PipelineStep) == 12


@pytest.mark.parametrize(
    "options",
    [
        {"profile": "other"},
        {"profile": None},
        {"tools": [TOOL]},
        {"tools": {"a": 5}},
        {"tools": "toolA"},
    ],
)
def test_wrong_options_are_refused_when_it_is_made(options: dict[str, Any]) -> None:
    """Options of another kind raise a ContractError that says what to give."""
    with pytest.raises(sr.ContractError):
        AgentPipelineContextValidator(**options)


def test_a_validator_goes_to_another_process() -> None:
    """Pickled, it comes back with the same options and gives the same results."""
    again = pickle.loads(pickle.dumps(VALIDATORS[1]))  # noqa: S301 - our own bytes
    assert again.validate_core(None) == VALIDATORS[1].validate_core(None)
    assert again.first_only


ALLOWED = {
    *(
        "__future__",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "hashlib",
        "itertools",
        "json",
        "re",
        "types",
        "typing",
    ),
    *("pydantic", "pydantic_core", "strictreply"),
}
BELOW = {"contract", "reading", "values", "wires"}
WITHIN = {
    "loop._result_texts",
    "loop.invoke_result",
    "pipeline._manifest_rules",
    "pipeline._rule",
    "loop.values",
    "pipeline._response_rules",
    "pipeline._validator",
    "pipeline._values",
}
FACADES = {"core", "core.arguments", "core.forms", "core.judging", "core.text"}
"""What the extension API shows of the packages below."""

RUNNING = {"CallPlan", "adrive", "arun", "drive", "run", "shape", "wrap"}
"""Names of the root and of the extension API that run or talk."""


@pytest.mark.req("P75")
def test_it_judges_and_does_nothing_else() -> None:
    """Validator and rules import nothing that runs, waits, stores or talks: values, the reader of
    JSON, the tools.
    """
    root = Path(sr.__file__).parent
    for module in some(sorted(WITHIN)):
        source = root / f"{module.replace('.', '/')}.py"
        nodes = list(ast.walk(ast.parse(source.read_text(encoding="utf-8"))))
        imported = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        imported += [
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        ]
        assert {name.partition(".")[0] for name in imported} <= ALLOWED, source.name
        names = {
            alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
        }
        assert not names & RUNNING, source.name
        ours = [name.split(".", 1)[1] for name in imported if name.startswith("strictreply.")]
        assert {name for name in ours if name.partition(".")[0] not in BELOW} <= WITHIN | FACADES

        called = {
            node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"open", "print", "exec", "eval", "input"}, source.name


def test_a_manifest_is_judged_the_same_alone_and_in_a_context() -> None:
    """A manifest's errors inside a context are its own, with paths that begin at the context."""
    for changes in (
        {"/tool_call_results": ()},
        {"/tool_call_results/0/result_json": "{"},
        {"/tool_calls/0": None},
    ):
        bad = changed(ANSWERED, changes)
        alone = VALIDATOR.validate_tool_call_manifest(bad).errors
        ctx = changed(before(PipelineStep.LLM_CLIENT, CONTINUATION), {"/tool_call_manifest": bad})
        inside = VALIDATOR.validate_pre_step(ctx, PipelineStep.LLM_CLIENT).errors
        assert [error.rule for error in inside] == [error.rule for error in alone]
        assert [error.path for error in inside] == [
            f"/tool_call_manifest{error.path}" for error in alone
        ]
