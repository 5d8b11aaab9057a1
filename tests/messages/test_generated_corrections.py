"""Whatever a model writes, a guard over the Messages API asks for nothing that the API refuses."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import tenacity

import strictreply as sr
from support.anthropic_corrections import converse
from support.anthropic_replies import generated_replies

POLICIES: dict[str, sr.RetryPolicy] = {
    "usual": sr.RetryPolicy(wait=tenacity.wait_none()),
    "cached": sr.RetryPolicy(wait=tenacity.wait_none(), keep_prompt_cache=True),
    "open": sr.RetryPolicy(wait=tenacity.wait_none(), allow_other_tool=True),
}
THINKING: dict[str, dict[str, Any]] = {
    "not at all": {},
    "adaptive": {"thinking": {"type": "adaptive"}},
    "manual": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
}


@pytest.mark.parametrize("thinking", THINKING)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_no_request_of_a_guard_is_refused(is_streamed: bool, policy: str, thinking: str) -> None:
    """Neither a correction nor the caller's next turn breaks a rule of the API."""
    asked = Counter[str]()
    ends = Counter[str]()
    for seed in range(3):
        replies = generated_replies(seed, thinks=bool(THINKING[thinking]), is_streamed=is_streamed)
        found = converse(replies, 40, policy=POLICIES[policy], **THINKING[thinking])
        assert [(refused.why, refused.body) for refused in found.refused] == []
        asked += found.asked
        ends += found.ends

    assert asked["correction"] > asked["first"] > 100
    assert ends["settled"] > 40
