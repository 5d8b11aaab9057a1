"""The user's own checks of valid calls: asked for as an effect, because they may need I/O.

Each check is given a deep copy of the arguments: what comes out of a contract is what was judged.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strictreply.contract._complaints import check_issues
from strictreply.contract._tool import Tool
from strictreply.values._errors import ContractError
from strictreply.values._issues import Issue, pointer
from strictreply.values._replies import Invalid, Verdict

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract


@dataclass(frozen=True, slots=True)
class Check:
    """Effect: run these tools' checks on these typed arguments; the text says where the arguments stand."""

    jobs: tuple[tuple[Tool, Any, str], ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """Event: what the checks found, and the seconds they took."""

    issues: tuple[Issue, ...]
    seconds: float = 0.0


def check_of(contract: Contract, verdict: Verdict) -> Check | None:
    """Ask for the checks of the called tools; None when the reply is invalid or no called tool has one."""
    if isinstance(verdict, Invalid):
        return None
    jobs = tuple(
        (contract.by_name[call.tool], call.args, _place(contract, index))
        for index, call in enumerate(contract.calls_in(verdict.reply))
        if contract.by_name[call.tool].check is not None
    )
    return Check(jobs) if jobs else None


def perform_check(effect: Check) -> Checked:
    """Run the checks in order; ContractError when one turns out to be async."""
    issues: list[Issue] = []
    for tool, args, at in effect.jobs:
        outcome = _outcome(tool, args)
        if inspect.iscoroutine(outcome):
            outcome.close()
            message = f"the check of tool {tool.name!r} is async; use an async client, or await Contract.acheck"
            raise ContractError(message)
        issues += _found(tool, outcome, args, at)
    return Checked(tuple(issues))


async def aperform_check(effect: Check) -> Checked:
    """Run the checks in order, awaiting those that are async."""
    issues: list[Issue] = []
    for tool, args, at in effect.jobs:
        outcome = _outcome(tool, args)
        if inspect.isawaitable(outcome):
            try:
                outcome = await outcome
            except ValueError as error:
                outcome = error
        issues += _found(tool, outcome, args, at)
    return Checked(tuple(issues))


def _outcome(tool: Tool, args: Any) -> Any:
    """Call a tool's check; a ValueError is what it found, anything else is a bug of it and goes on up."""
    given = _copied(tool, args)
    try:
        return None if tool.check is None else tool.check(given)
    except ValueError as error:
        return error


def _copied(tool: Tool, args: Any) -> Any:
    """Copy arguments for a check, so that it cannot change what was judged; ContractError when they have no copy."""
    try:
        return copy.deepcopy(args)
    except (TypeError, copy.Error) as error:
        message = f"the arguments of tool {tool.name!r} cannot be copied for its check: {type(error).__name__}"
        raise ContractError(message) from error


def _found(tool: Tool, outcome: Any, args: Any, at: str) -> tuple[Issue, ...]:
    """Word what a check found without the model's words."""
    return check_issues(outcome, args, at=at, names=tool.parameters.names)


def _place(contract: Contract, index: int) -> str:
    """Point to the arguments of a call."""
    return pointer("/tool_calls", index, "function", "arguments") if contract.channel == "native" else "/args"
