"""Who is told of verdicts: the counters, and DEBUG logging on the package's logger without handlers of its own (M115).

Raw replies are logged only through a redaction of the caller's; everything else is made of our words and the
declaration's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from strictreply.contract._driving import unharmed
from strictreply.coordination._actions.kinds import ActionType
from strictreply.coordination._replies.results import ValidationResult
from strictreply.coordination.validation._metrics import ValidationMetrics
from strictreply.values._attempts import Attempt, plain, type_name
from strictreply.values._issues import Issue, printable

logger = logging.getLogger("strictreply")

Redact: TypeAlias = Callable[[str], str]
"""Given a raw reply as JSON text, gives what may be logged."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Tells ``metrics`` and the log of verdicts; without ``redact`` no raw reply is logged."""

    metrics: ValidationMetrics | None = None
    redact: Redact | None = None

    def judged(self, agent: str, result: ValidationResult, raw: object) -> None:
        """Tell of a reply that was handed in."""
        if self.metrics is not None:
            self.metrics.validated(agent, result)
        action = result.action_type if result.is_valid else None
        log_validation(agent, action, result.issues, raw=raw, redact=self.redact)

    def attempted(self, agent: str, attempt: Attempt, action: ActionType | None) -> None:
        """Tell of one attempt of a client's loop; the client has logged the raw reply, in its own redaction."""
        if self.metrics is not None:
            self.metrics.attempted(agent, attempt, action=action)
        if attempt.failure is None:
            log_validation(agent, action, attempt.issues)


def log_validation(
    agent: str,
    action: ActionType | None,
    issues: tuple[Issue, ...],
    *,
    raw: object = None,
    redact: Redact | None = None,
) -> None:
    """Log one verdict at DEBUG: who replied, the action or the faults' codes and places; and the raw reply, redacted.

    Without ``redact`` no raw reply is logged.
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    faults = ", ".join(f"{issue.code} at {issue.place}" for issue in issues)
    logger.debug("reply of %r: %s", agent, f"invalid ({faults})" if issues else action)
    if redact is not None:
        with unharmed("log_replies"):
            logger.debug("reply of %r: raw %s", agent, printable(redact(_spelled(raw))))


def _spelled(raw: object) -> str:
    """Spell a raw reply as JSON; an object whose own code raises is named by its type."""
    try:
        return json.dumps(plain(raw))
    except Exception:  # noqa: BLE001 - a log must not end the judging of a reply
        return json.dumps(type_name(raw))
