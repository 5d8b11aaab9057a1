"""The examples' own apps under the survival probe, as a reader would run it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import strictreply
from support.cli.running import Command

pytestmark = pytest.mark.one_lane

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


SAID = {
    "wrap_sync": (),
    "responses_api": (),
    "structured_answer": (),
    "text_channel": ("--tools", "text_channel:search_products"),  # only the prompt names them
    "tool_loop": ("--good", '{"city": "Paris"}'),  # its tool knows no other town than two
}


@pytest.mark.parametrize("example", SAID)
def test_an_example_survives_what_models_get_wrong(
    command: Command, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing malformed is accepted, crashes it or leaks; with good replies after the fault it
    recovers.
    """
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(EXAMPLES), str(Path(strictreply.__file__).parents[1])])
    )
    monkeypatch.syspath_prepend(EXAMPLES)
    chosen = ("--kind", "finish", "--kind", "tool", "--jobs", "1")
    done = command("probe", "--app", f"{example}:ask", *chosen, *SAID[example])
    assert done.exit_code == 0, done.stdout
    assert "Survived all" in done.stdout
