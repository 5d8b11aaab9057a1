"""The scripted model of support_desk.py, with some malformed replies."""

from __future__ import annotations

from typing import Any

import strictreply as sr
from strictreply.testing import ScriptedModel, faults, ok


def desk_model(
    find_order: sr.Tool,
    return_policy: sr.Tool,
    take_photo: sr.Tool,
    refund: sr.Tool,
) -> ScriptedModel:
    """Play two customers' cases: one refund is approved, one denied."""
    paid: dict[str, Any] = {"order": 1042, "amount": 29.9}
    return ScriptedModel(
        faults.tool_in_other_case(find_order, args={"number": 1042}),
        ok.calls(
            ok.call(find_order, number=1042),
            ok.call(return_policy, reason="broken"),
        ),
        ok.call(take_photo, order=1042),
        faults.number_as_text_with_unit(refund, "/amount", args=paid),
        ok.call(refund, **paid),
        faults.empty_content(),
        ok.answer("I have refunded 29.90 EUR for order 1042."),
        faults.extra_key(find_order, args={"number": 1077}),
        ok.call(find_order, number=1077),
        ok.call(refund, order=1077, amount=99.0),
        ok.answer("I am sorry: we cannot refund order 1077, it was used."),
    )
