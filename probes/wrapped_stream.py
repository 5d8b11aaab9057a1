"""The app of ``raw_sdk_stream``, on a client in strictreply with the default policy.

Its stream is unchanged.
"""

from __future__ import annotations

from openai import OpenAI

import strictreply as sr
from probes.job import TIMEOUT
from probes.raw_sdk_stream import searched


def app(base_url: str) -> object:
    """Ask in a stream that is guarded."""
    return searched(sr.wrap(OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT)))
