"""The formats of the reference engine, held to the JSON Schema Test Suite."""

from __future__ import annotations

import json

import pytest

from strictreply.schema._reference_engine import FORMAT_CHECKS
from support.shared_data import SHARED, needs_shared

SUITE = (
    SHARED / "suites" / "JSON-Schema-Test-Suite" / "tests" / "draft2020-12" / "optional" / "format"
)


@needs_shared
@pytest.mark.parametrize("name", FORMAT_CHECKS)
def test_formats_agree_with_the_suite(name: str) -> None:
    """Each format takes and refuses what the suite says, but for punycode, which needs the tables
    of IDNA.
    """
    cases = json.loads((SUITE / f"{name}.json").read_text(encoding="utf-8"))
    tests = [test for case in cases for test in case["tests"] if isinstance(test["data"], str)]
    wrong = [test["data"] for test in tests if FORMAT_CHECKS[name](test["data"]) != test["valid"]]
    assert [text for text in wrong if "xn--" not in text.lower()] == []
