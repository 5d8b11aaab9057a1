"""The JSON Schema Test Suite, through the library's own compile and check."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from strictreply import ContractError
from strictreply.core.schemas import upgraded
from strictreply.schema import Schema
from strictreply.schema._reference_engine import ReferenceEngine
from support.shared_data import SHARED, needs_shared

SUITE = SHARED / "suites" / "JSON-Schema-Test-Suite" / "tests"
DECLARED = {"draft2020-12": {}, "draft7": {"$schema": "http://json-schema.org/draft-07/schema#"}}
if (SUITE / "draft4").is_dir():  # only some copies of the suite hold it
    DECLARED["draft4"] = {"$schema": "http://json-schema.org/draft-04/schema#"}

# These schemas refer to documents on a server of the suite: nothing is fetched, so they are refused
# when declared.
REMOTE_FILES = {"refRemote.json", "optional/cross-draft.json"}
REMOTE_CASES = {
    "strict-tree schema, guards against misspelled properties",
    "tests for implementation dynamic anchor and reference link",
    "$ref and $dynamicAnchor are independent of order - $defs first",
    "$ref and $dynamicAnchor are independent of order - $ref first",
    "$ref to $dynamicRef finds detached $dynamicAnchor",
}
# These are written in a metaschema of the suite's own, which lies on that server too.
OWN_DIALECT_CASES = {
    "schema that uses custom metaschema with with no validation vocabulary",
    "ignore unrecognized optional vocabulary",
    "schema that uses custom metaschema with format-assertion: false",
    "schema that uses custom metaschema with format-assertion: true",
}
# As 2020-12 a list in items is prefixItems, so that a pointer into it leads nowhere; the draft-07
# metaschema is not known to the engine beside a 2020-12 document.
NOT_UPGRADED_CASES = {
    "relative pointer ref to array",
    "validate definition against metaschema",
    "remote ref, containing refs itself",
}
# The reference engine matches patterns linearly itself, and jsonschema looks for unevaluated
# members with its own.
NOT_IN_REFERENCE_CASES = {
    "unevaluatedProperties with adjacent patternProperties",
    "unevaluatedProperties with nested patternProperties",
    "dynamic evalation inside nested refs",
    "unevaluatedProperties can see annotations from if without then and else",
    "Evaluated properties collection needs to consider instance location with patternProperties",
}


class Case(NamedTuple):
    """One schema of the suite with its values and verdicts."""

    file: str
    description: str
    schema: Any
    tests: list[dict[str, Any]]

    @property
    def is_refused(self) -> bool:
        """Whether the schema is among those that are refused when declared."""
        draft_04 = (
            "http://json-schema.org/draft-04/schema#"
            in (self.schema if isinstance(self.schema, dict) else {}).values()
        )
        refused = REMOTE_CASES | OWN_DIALECT_CASES | (NOT_UPGRADED_CASES if draft_04 else set())
        return self.file in REMOTE_FILES or self.description in refused


def cases(draft: str, *, optional: bool) -> Iterator[Case]:
    """Read the required or the optional cases of a draft."""
    folder = SUITE / draft
    for file in sorted(
        (folder / "optional").rglob("*.json") if optional else folder.glob("*.json")
    ):
        for case in json.loads(file.read_text(encoding="utf-8")):
            schema = (
                {**DECLARED[draft], **case["schema"]}
                if isinstance(case["schema"], dict)
                else case["schema"]
            )
            yield Case(
                file.relative_to(folder).as_posix(), case["description"], schema, case["tests"]
            )


def wrong_verdicts(case: Case, check: Any) -> list[str]:
    """Return the tests of a case whose verdict differs from the suite's."""
    return [
        f"{case.description}: {test['description']}"
        for test in case.tests
        if check(test["data"]) != test["valid"]
    ]


@needs_shared
@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("draft", DECLARED)
def test_the_suite_passes(draft: str, optional: bool) -> None:
    """Every verdict is the suite's; only schemas that need the network, or a dialect of their own,
    are refused.

    The optional tests assert formats: the engine fails none of them.
    """
    wrong = []
    refused = set()

    for case in cases(draft, optional=optional):
        try:
            schema = Schema.compile(
                case.schema, extra="schema", formats="assert" if optional else "annotate"
            )
        except ContractError:
            refused.add((case.file, case.description))
            continue

        wrong += wrong_verdicts(case, lambda value, schema=schema: schema.check(value) == ())

    assert wrong == []
    expected = {
        (case.file, case.description) for case in cases(draft, optional=optional) if case.is_refused
    }
    assert refused <= expected
    assert all(file in REMOTE_FILES for file, _ in expected - refused)


@needs_shared
def test_upgraded_draft_07_means_the_same() -> None:
    """A draft-07 schema spelled as 2020-12 judges as it did."""
    wrong = []
    refused = set()

    for case in cases("draft7", optional=False):
        try:
            source = Schema.compile(case.schema, extra="schema", formats="annotate").source
            schema = Schema.compile(upgraded(source), extra="schema", formats="annotate")
        except ContractError:
            refused.add(case.description)
            continue

        wrong += wrong_verdicts(case, lambda value, schema=schema: schema.check(value) == ())

    assert wrong == []
    remote = {case.description for case in cases("draft7", optional=False) if case.is_refused}
    assert refused - remote == NOT_UPGRADED_CASES


@needs_shared
@pytest.mark.parametrize("draft", DECLARED)
def test_the_reference_engine_passes(draft: str) -> None:
    """The engine of platforms without a wheel gives the suite's verdicts too."""
    wrong = []
    refused = set()

    for case in cases(draft, optional=False):
        try:
            source = Schema.compile(case.schema, extra="schema", formats="annotate").source
            engine = ReferenceEngine(source, formats=False)
        except ContractError:
            refused.add(case.description)
            continue

        wrong += wrong_verdicts(case, engine.is_valid)

    assert wrong == []
    known = {case.description for case in cases(draft, optional=False) if case.is_refused}
    assert refused - known <= NOT_IN_REFERENCE_CASES


def test_the_suite_is_where_it_is_looked_for() -> None:
    """The data beside the checkout, when present, holds the suite."""
    assert not Path(SHARED).is_dir() or SUITE.is_dir()
