"""Every import line of the published documents works as it is printed.

``marsys`` is read as ``strictreply``.
"""

from __future__ import annotations

from typing import Any

import pytest

from strictreply import coordination

PRINTED = [
    "from marsys.coordination.validation import ValidationProcessor",
    "from marsys.coordination.validation import ValidationResult",
    "from marsys.coordination.validation import ActionType",
    "from marsys.coordination.routing import Router",
    "from marsys.coordination.routing import RoutingDecision",
    "from marsys.coordination.routing import RoutingContext",
    "from marsys.coordination.routing import ExecutionStep, StepType",
    """from marsys.coordination.formats import (
SystemPromptBuilder,
BaseResponseFormat,
JSONResponseFormat,
AgentContext,
CoordinationContext,
)""",
    "from marsys.coordination.formats import SystemPromptBuilder",
    "from marsys.coordination.formats import AgentContext",
    "from marsys.coordination.formats import CoordinationContext",
    """from marsys.coordination.formats import (
register_format,
get_format,
list_formats,
set_default_format,
is_format_registered
)""",
    "from marsys.coordination.formats import BaseResponseFormat",
    "from marsys.coordination.formats import ResponseProcessor",
]
"""The import lines of the API reference, in its order."""


@pytest.mark.parametrize("line", PRINTED)
def test_a_printed_import_works(line: str) -> None:
    """Each name that a line imports is there, and is what the facade gives under the same name."""
    names: dict[str, Any] = {}
    exec(line.replace("marsys", "strictreply"), names)  # noqa: S102 - as printed
    del names["__builtins__"]
    assert names
    assert all(getattr(coordination, name) is value for name, value in names.items())
