"""The rules of the two steps that a turn ends with: what the model's reply came to, and the response built from it."""

from __future__ import annotations

from typing import Final

from strictreply.pipeline._fingerprint import fingerprint
from strictreply.pipeline._kinds import ResponseType
from strictreply.pipeline._results import InvokeCode
from strictreply.pipeline._rules.clauses import Clause
from strictreply.pipeline._rules.entries import Entry, entries_at
from strictreply.pipeline._rules.reading import ARRAYS, entries, is_null, is_object, is_present
from strictreply.pipeline._rules.rule import Breach, Condition, Subject, unless, where

CALLS: Final = "/outgoing_manifest/tool_calls"
RESULTS: Final = "/outgoing_manifest/tool_call_results"
PAYLOAD: Final = "/response_payload"
TEXT: Final = "/response_payload/primary_output_text"


def pending_calls(subject: Subject) -> list[Entry]:
    """Give the calls of the model's last reply that have no result yet: those of before are answered (X17)."""
    answered = {result.id for result in entries_at(subject, RESULTS)} - {None}
    calls = (Entry(call, index, f"{CALLS}/{index}") for index, call in enumerate(entries(subject[CALLS])))
    return [call for call in calls if call.id not in answered]


def is_built(subject: Subject) -> bool:
    """Tell whether there is a response."""
    return is_object(subject["/built/response"])


def _has_answer(subject: Subject) -> bool:
    """Tell whether the model's reply was an answer; a blank one is refused where the response is built."""
    return isinstance(subject[TEXT], str)


def _has_both(subject: Subject) -> bool:
    """Tell whether there is a payload, whatever it holds, beside pending calls, or what stands in their place."""
    calls = bool(pending_calls(subject)) or not (is_null(subject[CALLS]) or isinstance(subject[CALLS], ARRAYS))
    return calls and not is_null(subject[PAYLOAD])


def _left_for_the_server(subject: Subject) -> list[Breach]:
    """Find the pending calls that no client answers, unless they may go back to the Reasoner (P38, X13)."""
    if subject.options.allow_server_tool_calls:
        return []
    return [
        call.breach("requires_client_execution")
        for call in pending_calls(subject)
        if call["requires_client_execution"] is not True
    ]


def _is_unchanged(subject: Subject) -> bool:
    """Tell whether the context is still the one that the response was built from."""
    try:
        return subject["/built/fingerprint"] == fingerprint(subject.content)
    except Exception:  # noqa: BLE001 - it holds what is not JSON, and an object's own code may raise anything
        return False


def _has_outcome(outcome: ResponseType) -> Condition:
    """Ask a rule of one outcome alone."""
    return lambda subject: subject["/response_type"] == outcome


NO_PAYLOAD: Final = Clause(
    name="payload_null",
    code=InvokeCode.PAYLOAD_NOT_NULL,
    message="there must be no answer yet",
    breaches=where(PAYLOAD, is_null),
)
NO_PENDING: Final = Clause(
    name="calls_answered",
    code=InvokeCode.CALLS_PENDING,
    message="no call of the model's last reply may wait for its result",
    breaches=lambda subject: [call.breach("tool_call_id") for call in pending_calls(subject)],
)
NOT_BOTH: Final = Clause(
    name="not_both",
    code=InvokeCode.BOTH,
    message="there must be an answer or tool calls, not both",
    breaches=unless(lambda subject: not _has_both(subject)),
)
NOT_NEITHER: Final = Clause(
    name="not_neither",
    code=InvokeCode.NEITHER,
    message="there must be an answer or tool calls",
    breaches=unless(lambda subject: _has_answer(subject) or bool(pending_calls(subject))),
)
FOR_THE_CLIENT: Final = Clause(
    name="calls_for_client",
    code=InvokeCode.SERVER_CALL_LEFT,
    message="a call that waits must be the client's to answer",
    breaches=_left_for_the_server,
)

OUTCOME: Final = Clause(
    name="response_type",
    code=InvokeCode.RESPONSE_TYPE,
    message="the response type must be Final or ToolContinuation",
    breaches=where("/response_type", lambda value: value in (ResponseType.FINAL, ResponseType.TOOL_CONTINUATION)),
)
FINAL_TEXT: Final = Clause(
    name="final_text",
    code=InvokeCode.OUTPUT_TEXT_MISSING,
    message="a final response needs an output text that is not blank",
    breaches=where(TEXT, is_present),
    when=_has_outcome(ResponseType.FINAL),
)
CONTINUATION_CALLS: Final = Clause(
    name="continuation_calls",
    code=InvokeCode.TOOL_CALLS_MISSING,
    message="a tool continuation needs a manifest with a call that waits",
    breaches=unless(lambda subject: bool(pending_calls(subject)), "/outgoing_manifest"),
    when=_has_outcome(ResponseType.TOOL_CONTINUATION),
)
BUILT: Final = Clause(
    name="response_built",
    code=InvokeCode.RESPONSE_MISSING,
    message="there must be a response",
    breaches=unless(is_built, "/built"),
)
UNCHANGED: Final = Clause(
    name="context_unchanged",
    code=InvokeCode.CONTEXT_CHANGED,
    message="the context must be the one that the response was built from",
    breaches=unless(_is_unchanged),
    when=is_built,
)
