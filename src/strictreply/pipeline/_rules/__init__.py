"""The rules of AGN-036 as one table: adding a rule is adding one value to the module of its section."""

from __future__ import annotations

from strictreply.pipeline._rules.core import CORE
from strictreply.pipeline._rules.manifests import MANIFEST
from strictreply.pipeline._rules.responses import RESPONSE
from strictreply.pipeline._rules.rule import Group, Rule, Stage
from strictreply.pipeline._rules.steps import STEP_KNOWN, STEPS, StepRules


def list_rules() -> tuple[Rule, ...]:
    """List every rule in the order in which it is asked, those of the extended profile too (requirement P9)."""
    own = (rule for step in STEPS.values() for rule in step.rules)
    return (STEP_KNOWN, *_rules_in(CORE), *own, *_rules_in(MANIFEST), *_rules_in(RESPONSE))


def list_steps() -> tuple[StepRules, ...]:
    """List what is asked at every step, in the order of their numbers; one without rules says so (requirement P8)."""
    return tuple(STEPS.values())


def _rules_in(groups: tuple[Group, ...]) -> list[Rule]:
    """Give the rules of groups in order."""
    return [judge for group in groups for judge in group if isinstance(judge, Rule)]


__all__ = ("Rule", "Stage", "StepRules", "list_rules", "list_steps")
