"""What the tests of corrections share.

There are contracts, bad replies, and a reader of the example in a correction.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, Field, model_validator

from strictreply import Contract, CorrectionContext, Invalid, TieredSteering, Tool
from strictreply.core import judge
from strictreply.core.forms import draft_of
from strictreply.retry._scoping import scope_of
from support.scripted import OTHER_SCHEMA, SCHEMA, completion

TOOLS = [Tool.from_json_schema("search", SCHEMA), Tool.from_json_schema("weather", OTHER_SCHEMA)]
STEERING = TieredSteering()
EXAMPLE = "A valid example: "


class Invoice(BaseModel):
    """A structured answer."""

    total: int = Field(ge=1)
    note: str


class Impossible(BaseModel):
    """Arguments that the schema admits and the model's own validator never does."""

    query: str

    @model_validator(mode="after")
    def refuse(self) -> Impossible:
        """Refuse everything."""
        message = "never"
        raise ValueError(message)


def terms_of(**declared: Any) -> Contract:
    """Compile a contract's contract."""
    return Contract(**{"tools": TOOLS, **declared})


def context(contract: Contract, message: Any, tier: int = 1) -> CorrectionContext:
    """Judge a bad message and say what its correction is about."""
    verdict = judge(contract, message)
    assert isinstance(verdict, Invalid)
    scope = scope_of(contract, draft_of(message), verdict.issues)
    one = scope.only if scope else None
    return CorrectionContext(
        verdict.issues, contract, tier, one.tool if one else None, one.at if one else ""
    )


def said(content: str | None = None, calls: Any = ()) -> dict[str, Any]:
    """Return a bare assistant message."""
    return dict(completion(content, calls)["choices"][0]["message"])


def example_in(text: str) -> Any:
    """Read the example that a correction shows; None when it shows none."""
    lines = [line for line in text.splitlines() if line.startswith(EXAMPLE)]
    return json.loads(lines[0].removeprefix(EXAMPLE)) if lines else None
