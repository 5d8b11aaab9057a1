"""The reader against public collections.

They are JSONTestSuite, and the broken replies that repair tools are tested with.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strictreply import Invalid
from strictreply.core import decode
from support.shared_data import SHARED, needs_shared

SUITE = SHARED / "suites" / "JSONTestSuite"
PARSING = sorted((SUITE / "test_parsing").glob("*.json"))
TRANSFORM = sorted((SUITE / "test_transform").glob("*.json"))
MALFORMED = SHARED / "suites" / "malformed_inputs.jsonl"

I_JSON_REFUSES = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}
"""What RFC 8259 lets a parser accept and RFC 7493 section 2.3 does not: names that are not unique.
"""

NOT_CUT = {"b560e015f7fb293a"}
"""What the labels call cut and is not: no continuation makes an escape of ``\\uZ``."""

pytestmark = needs_shared


def suite_files(prefix: str) -> list[Path]:
    """Return the files of the parsing suite whose verdict is ``y``, ``n`` or ``i``."""
    return [path for path in PARSING if path.name.startswith(prefix)]


def codes(text: object) -> list[str]:
    """Return the codes of a refusal, none for an accepted text."""
    verdict = decode(text)
    return [issue.code for issue in verdict.issues] if isinstance(verdict, Invalid) else []


@pytest.mark.parametrize("path", suite_files("y_"), ids=lambda path: path.stem)
def test_valid_json_is_accepted(path: Path) -> None:
    """Every text a JSON parser must accept is read, but for what I-JSON forbids."""
    assert codes(path.read_bytes()) == (
        ["json.duplicate_key"] if path.name in I_JSON_REFUSES else []
    )


@pytest.mark.parametrize("path", suite_files("n_"), ids=lambda path: path.stem)
def test_invalid_json_is_refused(path: Path) -> None:
    """Every text a JSON parser must refuse is refused, as bytes and as text."""
    assert codes(path.read_bytes())
    assert codes(path.read_bytes().decode(errors="surrogateescape"))


@pytest.mark.parametrize("path", [*suite_files("i_"), *TRANSFORM], ids=lambda path: path.stem)
def test_the_undefined_ends_in_a_verdict(path: Path) -> None:
    """Where parsers may differ ours reads or refuses, the same for bytes and for the text they
    spell.
    """
    data = path.read_bytes()
    assert set(codes(data)) <= {
        *(
            "json.duplicate_key",
            "json.encoding",
            "json.not_finite",
            "json.surrogate",
            "json.syntax",
            "json.too_deep",
        ),
    }

    if "json.encoding" not in codes(data):
        assert codes(data.decode()) == codes(data)


@pytest.mark.parametrize(
    "path", [path for path in TRANSFORM if "same_key" in path.name], ids=lambda path: path.stem
)
def test_duplicate_names_are_refused(path: Path) -> None:
    """Two members of one name are refused, whether their values are equal or not."""
    assert codes(path.read_bytes()) == ["json.duplicate_key"]


@pytest.mark.parametrize("path", TRANSFORM, ids=lambda path: path.stem)
def test_numbers_and_strings_are_not_transformed(path: Path) -> None:
    """An accepted text has the value that the standard library reads."""
    data = path.read_bytes()
    if not codes(data):
        assert repr(decode(data)) == repr(json.loads(data))


def test_broken_replies_are_told_from_whole_ones() -> None:
    """A recorded text is accepted exactly when its label calls it strict JSON."""
    rows = [json.loads(line) for line in MALFORMED.read_text(encoding="utf-8").splitlines()]
    assert [
        row["id"] for row in rows if (not codes(row["text"])) is not row["label"]["strict_json"]
    ] == []


def test_cut_replies_are_told_from_broken_ones() -> None:
    """A recorded text labelled as cut in the middle of a value is refused as incomplete."""
    rows = [json.loads(line) for line in MALFORMED.read_text(encoding="utf-8").splitlines()]
    cut = [row for row in rows if row["label"]["prefix_state"] == "prefix" and row["text"].strip()]
    assert {row["id"] for row in cut if codes(row["text"])[-1] != "json.incomplete"} == NOT_CUT
