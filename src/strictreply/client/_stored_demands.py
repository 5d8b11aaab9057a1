"""The demands of a stored reply's request, as the reply repeats them.

The present caller did not declare them, so a part that cannot be checked is left out with a
warning.
"""

from __future__ import annotations

from functools import lru_cache

from strictreply.contract._contract import Contract
from strictreply.retry._shaping import shape
from strictreply.values._errors import ContractError, warn_of_declaration
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._wire import Demanding, Wire

_MOST_WARNED = 1_000


def demands(contract: Contract, wire: Wire, reply: JSON) -> JSONObject:
    """Return the demands of a stored reply's request that the contract leaves open.

    Warn once, with ContractWarning, about each part that cannot be checked.
    """
    said = wire.storing.demands(reply, not contract.tools, contract.answer.is_text)
    keywords: JSONObject = {}
    for one in said:
        keywords = one.added_to(keywords, one.versions[0])

    if _fault_of(contract, wire, keywords) is None:
        return keywords

    # not everything can be honoured: take each part as strictly as the parts before it allow
    honoured: JSONObject = {}
    for one in said:
        honoured = _with_first_honoured(contract, wire, honoured, one)

    return honoured


def _with_first_honoured(
    contract: Contract, wire: Wire, keywords: JSONObject, part: Demanding
) -> JSONObject:
    """Add the first version of a part that can be honoured; warn if it is not the first version."""
    fault: ContractError | None = None
    for version in part.versions:
        with_part = part.added_to(keywords, version)
        found = _fault_of(contract, wire, with_part)
        if found is None:
            keywords = with_part
            break

        fault = fault or found

    if fault is not None:
        _warn_once(f"a stored reply is only partly checked against its {part.label}: {fault}")

    return keywords


def _fault_of(contract: Contract, wire: Wire, keywords: JSONObject) -> ContractError | None:
    """Return why a request with these keywords cannot be honoured; None if it can."""
    try:
        shape(contract, {wire.conversation: [], **keywords}, wire)
    except ContractError as error:
        return error

    return None


@lru_cache(maxsize=_MOST_WARNED)
def _warn_once(words: str) -> None:
    warn_of_declaration(words)
