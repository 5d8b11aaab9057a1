"""Whatever a model writes, a guard over the Messages API asks for nothing that the API refuses."""

from __future__ import annotations

from collections import Counter

import pytest

from support.anthropic_corrections import converse
from support.anthropic_replies import KINDS, generated_replies

OF_SERVERS = {"searched", "waiting", "paused"}
"""The kinds of replies in which a tool of the server runs."""


@pytest.mark.parametrize("is_streamed", [False, True])
def test_no_request_of_a_guard_is_refused(is_streamed: bool) -> None:
    """Neither a correction nor the caller's next turn breaks a rule: no thinking, own tools."""
    asked = Counter[str]()
    ends = Counter[str]()
    for seed in range(10):
        replies = generated_replies(
            seed, thinks=False, is_streamed=is_streamed, kinds=KINDS.keys() - OF_SERVERS
        )
        found = converse(replies, 50)
        assert [(refused.why, refused.body) for refused in found.refused] == []
        asked += found.asked
        ends += found.ends

    assert asked["correction"] > asked["first"] > 400
    assert ends["settled"] > 100
