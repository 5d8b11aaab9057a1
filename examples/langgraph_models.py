"""Scripted models for langgraph_tutor.py and langgraph_research.py.

Each agent has its own script.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strictreply.testing import ScriptedModel, Step, faults, ok


def act(action: str, **members: Any) -> Step:
    """Reply with an action."""
    return ok.answer({"next_action": action, **members})


def hand_over(agent: str, request: str) -> Step:
    """Reply with a hand-over to one agent."""
    return act("invoke_agent", action_input=agent, request=request)


def tutor_model(search: object) -> Callable[[Any], Any]:
    """Play the tutor: one reply names an unknown agent, one is not JSON."""
    monday = "101 on Mondays, then 201 on Tuesdays. Do you agree?"
    saturday = "101 on Saturdays, then 201 on Sundays. Do you agree?"
    plan = "101 on Saturdays, then 201 on Sundays"
    return _by_model(
        coordinator=[
            hand_over("course_advisor", "courses about statistics"),
            hand_over("learning_planner", "a plan of Statistics 101 and 201"),
        ],
        course_advisor=[
            ok.call(search, topic="statistics"),
            hand_over("registrar", "enrol her"),
            hand_over("coordinator", "Statistics 101, then 201"),
        ],
        learning_planner=[
            ok.answer("Let me think about it."),
            act("ask_user", question=monday),
            act("ask_user", question=saturday),
            act("final_response", content=plan),
        ],
    )


def research_model() -> Callable[[Any], Any]:
    """Play the research team.

    The archivist never answers in JSON; the analyst's API first fails.
    """
    everybody = {
        "archivist": "papers on tea",
        "analyst": "prices of tea",
        "surveyor": "drinkers of tea",
    }
    names = list(everybody)
    found = (
        "Prices rise, and people drink on; of the papers nothing is known."
    )
    dusty = ok.answer("Dusty shelves, all of them.")
    return _by_model(
        lead=[
            act("parallel_invoke", agents=names, agent_requests=everybody),
            act("final_response", content=found),
        ],
        archivist=[dusty, ok.answer("Very dusty.")],
        analyst=[faults.rate_limited(), hand_over("lead", "prices rise")],
        surveyor=[hand_over("lead", "people drink on")],
    )


def debate_model() -> Callable[[Any], Any]:
    """Play a lead and a critic who never stop."""
    return _by_model(
        lead=[hand_over("critic", "Tea is best.")] * 9,
        critic=[hand_over("lead", "Is it?")] * 9,
    )


def _by_model(**scripts: list[Step]) -> Callable[[Any], Any]:
    """Answer each model's request with the next step of its script."""
    models = {name: ScriptedModel(*steps) for name, steps in scripts.items()}
    return lambda body: models[body["model"]](body)
