"""The app of ``wrapped``, with a deadline as docs/howto/budget.md advises for production."""

from __future__ import annotations

from openai import OpenAI

import strictreply as sr
from probes.job import TIMEOUT
from probes.wrapped import replied

DEADLINE = 3 * TIMEOUT
"""Seconds that one call may take, its retries included."""


def app(base_url: str) -> object:
    """Ask for a reply that fits, within the deadline."""
    openai = OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT)
    return replied(openai, sr.RetryPolicy(deadline=DEADLINE))
