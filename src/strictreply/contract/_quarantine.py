"""The index of tools by name, and tools that are left out because of a wrong declaration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strictreply.contract._tool import Tool, declared_name
from strictreply.values._errors import ContractError, warn_of_declaration
from strictreply.values._issues import Category, Issue
from strictreply.values._limits import Extra, Formats

CHOICES = frozenset({"auto", "required", "none"})
QUARANTINED = "contract.quarantined"


def by_name(tools: Iterable[Tool[..., object]]) -> dict[str, Tool[..., object]]:
    """Index tools by name.

    Raises ContractError if two tools share a name, or if one has a reserved name of
    ``tool_choice``.
    """
    index: dict[str, Tool[..., Any]] = {}
    for tool in tools:
        _refuse_name(tool, index)
        index[tool.name] = tool

    return index


def _refuse_name(tool: Tool[..., object], index: dict[str, Tool[..., object]]) -> None:
    if tool.name in CHOICES:
        raise ContractError(
            f"{tool.name!r} is a reserved word of tool_choice; "
            "rename the tool with Tool.from_…(name=…)"
        )

    if tool.name in index:
        raise ContractError(
            f"two tools are named {tool.name!r}; rename one with Tool.from_…(name=…)"
        )


def quarantined(
    declarations: Iterable[object], *, extra: Extra | None, formats: Formats | None
) -> tuple[list[Tool[..., object]], dict[str, Issue]]:
    """Declare tools one by one; return the valid ones, and the faults of the others by name.

    Issues a ContractWarning for each tool that is left out. The key of a tool without a name is its
    place, ``tools[3]``; of a tool with a repeated name, it is both.
    """
    index: dict[str, Tool[..., Any]] = {}
    faults: dict[str, Issue] = {}

    for number, declaration in enumerate(declarations):
        place = f"tools[{number}]"
        name = declared_name(declaration) or place
        try:
            tool = Tool.of(declaration, extra=extra, formats=formats)
            _refuse_name(tool, index)
        except ContractError as error:
            words = str(error).removesuffix(f" (at {error.path})")
            key = name if name not in index and name not in faults else f"{name} {place}"
            faults[key] = Issue(QUARANTINED, Category.FORMAT_ERROR, error.path, words)
            warn_of_declaration(f"the tool {key!r} is left out: {error}")
        else:
            index[tool.name] = tool

    return list(index.values()), faults
