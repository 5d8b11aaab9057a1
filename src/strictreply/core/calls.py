"""The parts of one call: clients, failures, budgets, corrections, and the effects of a flow."""

from strictreply.client._rollout import (
    WHOLE,
    Enforcement,
    GivenMode,
    GivenShare,
    GivenTools,
    Rollout,
)
from strictreply.contract._driving import apause, pause, skipped, unharmed
from strictreply.retry._failures import ExchangeStopped, retry_after
from strictreply.retry._policy import LATE_KINDS, Again, End, NextStep, is_transport_fault
from strictreply.retry._steering import (
    MAX_CORRECTION_BYTES,
    MAX_LISTED_FAULTS,
    fault_lines,
    fitted,
    fitted_before,
    verdict_words,
)
from strictreply.sdks._known import sdk_of_clients, usual_namespace
from strictreply.values._control_flow import is_control_flow, signal_of
from strictreply.values._replies import (
    MIN_CREDENTIAL_CHARS,
    OUR_NAMES,
    REDACTED,
    credentials_of,
    plain_request,
    total_usage,
    without_credentials,
)

__all__ = [
    "LATE_KINDS",
    "MAX_CORRECTION_BYTES",
    "MAX_LISTED_FAULTS",
    "MIN_CREDENTIAL_CHARS",
    "OUR_NAMES",
    "REDACTED",
    "WHOLE",
    "Again",
    "End",
    "Enforcement",
    "ExchangeStopped",
    "GivenMode",
    "GivenShare",
    "GivenTools",
    "NextStep",
    "Rollout",
    "apause",
    "credentials_of",
    "fault_lines",
    "fitted",
    "fitted_before",
    "is_control_flow",
    "is_transport_fault",
    "pause",
    "plain_request",
    "retry_after",
    "sdk_of_clients",
    "signal_of",
    "skipped",
    "total_usage",
    "unharmed",
    "usual_namespace",
    "verdict_words",
    "without_credentials",
]
