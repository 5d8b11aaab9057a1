"""The page for those who come from a published design: its tables are whole, and true."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from support.loops import some
from support.pages import DOCS, Page

pytestmark = pytest.mark.one_lane

PAGE = Page.named("coming-from-agents.md")
MODULES = {
    "sr": "strictreply",
    "co": "strictreply.coordination",
    "pipeline": "strictreply.pipeline",
    "formats": "strictreply.coordination.formats",
    "routing": "strictreply.coordination.routing",
    "validation": "strictreply.coordination.validation",
}
"""The abbreviations of the page."""
OURS = re.compile(rf"\b(?:{'|'.join(MODULES)})(?:\.(?!md\b)\w+)+")
PRINTED = {
    "TinyAgent": "ToolCallSchema DirectAnswerSchema AssistantReplySchema retryWithFixRequest run",
    "MARSYS": """
        TopologyGraph ValidationProcessor process_response validate_response register_processor
        BaseAgent ExecutionBranch ExecutionState Message AgentResponse ValidationResult is_valid
        action_type parsed_response error_message retry_suggestion invocations tool_calls
        next_agents AgentInvocation ActionType Router route RoutingDecision RoutingContext
        ExecutionStep StepType BranchSpec BranchType SystemPromptBuilder build AgentContext
        CoordinationContext BaseResponseFormat JSONResponseFormat get_format_name
        build_format_instructions build_action_descriptions get_examples
        get_parallel_invocation_examples create_processor register_format get_format list_formats
        set_default_format is_format_registered ResponseProcessor can_process process priority
        ProcessorChain StructuredJSONProcessor ToolCallProcessor ErrorMessageProcessor
        TextResponseProcessor generate_steering retry_with_steering RouteCache get_route set_route
        predict_next_route XMLResponseFormat CustomProcessor CustomFormatProcessor
        """,
    "study_agent": """
        route_next AgentState loop_count is_complete requires_human_input next_agent
        increment_loop_count request_human_input coordinator_node course_advisor_node
        max_loop_count coordinator course_advisor learning_planner
        """,
    "AGN-036": """
        IAgentPipelineContext IAgentPipelineContextValidator InvokeResult ValidateCore
        ValidatePreStep ValidatePostStep ValidateToolCallManifest AgentPipelineContextTypes Initial
        FollowOn ClientToolCallContinuation Session Turn AgentContext ConversationContext
        ToolCallManifest ToolCalls ToolCallResults ToolCallId Name ResultJson ResponsePayload
        ResponseType Final ToolContinuation RequestHandler SessionRestorer AgentContextResolver
        ClientToolContinuationResolver AgentSessionCreator AgentContextLoader
        PromptContentProviderInitializer Reasoner LLMClient ResponseBuilder
        """,
}
"""Every name of a class, a function, a member or a step that each document prints."""


def resolved(name: str) -> Any:
    """Return what a name of the page stands for; raises AttributeError where nothing does."""
    alias, *parts = name.split(".")
    value: Any = import_module(MODULES[alias])
    for part in parts:
        is_package = hasattr(value, "__path__")
        if is_package and find_spec(f"{value.__name__}.{part}"):
            value = import_module(f"{value.__name__}.{part}")
        else:
            value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", sorted(set(OURS.findall(PAGE.text))))
def test_each_of_our_names_is_there(name: str) -> None:
    """A name of ours on the page, in a table or a program, can be imported."""
    assert resolved(name) is not None


@pytest.mark.parametrize("document", PRINTED)
def test_every_printed_name_has_a_row(document: str) -> None:
    """Each name that a document prints stands in the first column of its table."""
    rows = PAGE.table(f"## {document}")
    printed = {word for row in rows for word in re.findall(r"\w+", row[0])}
    assert set(PRINTED[document].split()) - printed == set()


@pytest.mark.parametrize("document", PRINTED)
def test_a_row_has_a_name_of_ours_or_says_what_to_do(document: str) -> None:
    """The second column names what is here; where there is nothing, the third says what to do."""
    for row in some(PAGE.table(f"## {document}")):
        assert OURS.search(row[1]) or (row[1] == "none" and row[2]), row


def test_what_the_page_sends_to_is_there() -> None:
    """The files that the tables name exist."""
    named = re.findall(r"`((?:examples/[a-z_]+\.py|schemas/[a-z./-]+\.json))`", PAGE.text)
    ours = [path for path in named if path != "examples/routing_example.py"]
    assert len(ours) > 3
    assert [path for path in ours if not (DOCS.parent / path).is_file()] == []
