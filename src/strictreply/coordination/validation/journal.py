"""What DEBUG logging tells of verdicts, on the package's logger and without handlers of its own (requirement M115).

Raw replies are logged only through a redaction of the caller's; everything else is made of our words and the
declaration's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TypeAlias

from strictreply.attempts import plain
from strictreply.coordination.replies.results import ValidationResult

logger = logging.getLogger("strictreply")

Redact: TypeAlias = Callable[[str], str]
"""Given a raw reply as JSON text, gives what may be logged."""


def log_validation(agent: str, result: ValidationResult, *, raw: object = None, redact: Redact | None = None) -> None:
    """Log one verdict at DEBUG: who replied, the action or the faults' codes and places; and the raw reply, redacted.

    Without ``redact`` no raw reply is logged.
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    faults = ", ".join(f"{issue.code} at {issue.path or '/'}" for issue in result.issues)
    logger.debug("reply of %r: %s", agent, result.action_type if result.is_valid else f"invalid ({faults})")
    if redact is not None:
        logger.debug("reply of %r: raw %s", agent, redact(json.dumps(plain(raw))))
