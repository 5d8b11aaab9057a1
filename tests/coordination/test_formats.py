"""Formats: the interface, the registry, and three formats, two of them an application's own.

They differ in nothing but how an action is written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import xml_format
from xml_format import XMLProcessor, XMLResponseFormat

from strictreply import Category, ContractError
from strictreply.coordination import ActionType, Branch
from strictreply.coordination.formats import (
    ActionFormat,
    BaseResponseFormat,
    CoordinationContext,
    JSONResponseFormat,
    ResponseProcessor,
    StructuredJSONProcessor,
    _Registry,
    get_format,
    is_format_registered,
    list_formats,
    register_format,
    set_default_format,
)
from strictreply.coordination.validation import ValidationProcessor
from support.coordination.keyed import KeyedFormat
from support.coordination.team import CONVERSATION, PARALLEL, faults, judged, processor
from support.openai_shapes import call, message

XML = XMLResponseFormat()
KEYED = KeyedFormat()
FORMATS = [JSONResponseFormat(), XML, KEYED]
METHODS = (
    "get_format_name",
    "build_format_instructions",
    "build_action_descriptions",
    "get_examples",
    "get_parallel_invocation_examples",
    "create_processor",
)
EXAMPLES = Path(xml_format.__file__).parent
LEAVE = ["terminal_error", "terminate_workflow"]


@pytest.mark.req("M60")
@pytest.mark.parametrize("missing", METHODS)
def test_a_format_has_six_methods(missing: str) -> None:
    """Neither the interface nor a format without one of them can be made."""
    assert BaseResponseFormat.__abstractmethods__ == set(METHODS)
    with pytest.raises(TypeError):
        BaseResponseFormat()  # type: ignore[abstract]
    methods = {name: lambda self, *_: None for name in METHODS if name != missing}
    with pytest.raises(TypeError):
        type("Partial", (BaseResponseFormat,), methods)()


@pytest.fixture
def registry() -> Iterator[None]:
    """Leave the shared registry as it was."""
    classes = _Registry.classes
    default = _Registry.default
    yield
    _Registry.classes = classes
    _Registry.default = default


@pytest.mark.req("M61")
@pytest.mark.usefixtures("registry")
def test_the_registry_begins_with_json() -> None:
    """One format by default; unknown names are refused with the list, as a default, too."""
    assert list_formats() == ["json"]
    assert (is_format_registered("json"), is_format_registered("xml")) == (True, False)
    assert isinstance(get_format("json"), JSONResponseFormat)
    assert isinstance(get_format(), JSONResponseFormat)

    for refused in (get_format, set_default_format):
        with pytest.raises(ValueError, match="json"):
            refused("yaml")

    register_format("xml", XMLResponseFormat)
    assert list_formats() == ["json", "xml"]
    set_default_format("xml")
    assert isinstance(get_format(), XMLResponseFormat)


@pytest.mark.req("M61")
@pytest.mark.parametrize(
    ("name", "kind"),
    [("json", XMLResponseFormat), ("x", object), ("x", XML), ("", XMLResponseFormat)],
)
@pytest.mark.usefixtures("registry")
def test_registering_is_checked(name: str, kind: Any) -> None:
    """A taken or blank name and what is no format class are refused; taking a name over must be
    said.
    """
    with pytest.raises(ContractError):
        register_format(name, kind)
    register_format("json", XMLResponseFormat, replace=True)
    assert isinstance(get_format("json"), XMLResponseFormat)


@pytest.mark.slow
def test_the_printed_registry_example_runs() -> None:
    """As the reference prints it, with the example's format, in an interpreter of its own, because
    it changes the process's table.
    """
    printed = """
from strictreply.coordination.formats import (
    SystemPromptBuilder,
    BaseResponseFormat,
    JSONResponseFormat,
    AgentContext,
    CoordinationContext,
)
from strictreply.coordination.formats import (
    register_format,
    get_format,
    list_formats,
    set_default_format,
    is_format_registered
)
from xml_format import XMLResponseFormat
formats = list_formats() # ["json"]
json_format = get_format("json")
register_format("xml", XMLResponseFormat)
set_default_format("xml")
from strictreply.coordination.formats import ResponseProcessor
from strictreply.coordination.topology import Topology
from strictreply.coordination.validation import ActionType, ValidationProcessor, ValidationResult
made = ValidationProcessor(Topology.of({"A": ["User"]}), "xml")
text = "<next_action>final_response</next_action><content>hi</content>"
print(formats, type(json_format).__name__, is_format_registered("xml"), list_formats(),
      type(get_format()).__name__, made.validate(text, "A").final_response)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", printed],
        capture_output=True,
        text=True,
        check=False,
        cwd=EXAMPLES,
    )
    assert done.stderr == ""
    assert done.stdout.split() == [
        "['json']",
        "JSONResponseFormat",
        "True",
        "['json',",
        "'xml']",
        "XMLResponseFormat",
        "hi",
    ]


@pytest.mark.req("M61")
@pytest.mark.slow
def test_the_default_format_is_that_of_who_names_none() -> None:
    """A format that is made the default is how prompts, and the steering of a router, say that
    replies are written.
    """
    script = """
from strictreply.coordination import AgentContext, Branch, CoordinationContext, Router
from strictreply.coordination import RoutingContext, SystemPromptBuilder, Topology
from strictreply.coordination import ValidationProcessor
from xml_format import XMLResponseFormat
from strictreply.coordination import register_format, set_default_format
team, context = Topology.of({"A": ["User"]}), RoutingContext(current_agent="A")
register_format("xml", XMLResponseFormat)
for default in (None, "xml", "json"):
    if default is not None:
        set_default_format(default)
    bad = ValidationProcessor(team).validate("prose", "A")
    steering = Router(team).decide(bad, Branch(), context).next_steps[0].steering
    about = (AgentContext("A", "g", "i"), CoordinationContext([], True))
    prompt = SystemPromptBuilder().build(*about)
    named = SystemPromptBuilder("json").build(*about)
    steered = ("XML elements" in steering, "in JSON" in steering)
    print(bad.code, *steered, "<content>" in prompt, "<content>" in named)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=EXAMPLES,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "json.syntax False True False False",
        "format.malformed True False True False",
        "json.syntax False True False False",
    ]


@pytest.mark.req("M64")
@pytest.mark.parametrize("written", FORMATS, ids=lambda written: written.name)
@pytest.mark.parametrize("branch", [None, CONVERSATION, PARALLEL])
@pytest.mark.parametrize("agent", ["Coordinator", "Worker1", "DataAnalyzer", "Worker3"])
def test_every_example_is_valid_in_its_own_format(
    written: ActionFormat, branch: Branch | None, agent: str
) -> None:
    """Every example that a format shows an agent in a branch is a valid reply there; each permitted
    action has one.
    """
    made = processor(response_format=written, leave=LEAVE)
    context = CoordinationContext.of(made.terms(agent, branch))
    actions = context.permitted().actions
    examples = written.get_examples(actions, context)

    if ActionType.PARALLEL_INVOKE in actions:
        examples += written.get_parallel_invocation_examples(context)

    results = [made.validate(example, agent, branch) for example in examples]
    assert [result.issues for result in results] == [()] * len(examples)
    assert {result.action_type for result in results} == set(actions)
    assert all("\n" not in example and "{{" not in example for example in examples)


@pytest.mark.parametrize("written", FORMATS, ids=lambda written: written.name)
def test_instructions_name_the_permitted_actions_only(written: ActionFormat) -> None:
    """Each with its words; an action that is not permitted is not mentioned."""
    context = CoordinationContext(["B"], can_return_final_response=False)
    actions = context.permitted().actions
    told = written.build_format_instructions(
        actions, written.build_action_descriptions(actions, context)
    )
    assert {action for action in ActionType if action.value in told} == {
        ActionType.INVOKE_AGENT,
        ActionType.PARALLEL_INVOKE,
    }

    assert written.get_format_name() == written.name


@pytest.mark.parametrize(
    ("written", "kind"), [(FORMATS[0], StructuredJSONProcessor), (XML, XMLProcessor)]
)
def test_each_format_reads_itself_at_the_same_rank(written: ActionFormat, kind: type) -> None:
    """Its processor knows its name, and stands at 80."""
    made = written.create_processor()
    assert (type(made), made.priority(), made.format_name) == (kind, 80, written.name)


@pytest.mark.parametrize("wrap", [str, message, str.encode])
def test_replies_in_xml_are_judged_like_any_other(wrap: Callable[[str], Any]) -> None:
    """The same topology, shapes and codes; native calls are still calls."""
    settings: dict[str, Any] = {"response_format": XML}
    good = judged(
        wrap("<next_action>invoke_agent</next_action><action_input>Worker1</action_input>"),
        **settings,
    )
    assert (good.next_agents, good.source.response_format) == (["Worker1"], "xml")
    bad = judged(
        wrap("<next_action>invoke_agent</next_action><action_input>Nobody</action_input>"),
        **settings,
    )
    assert faults(bad) == [("topology.not_allowed", "/action_input")]

    extra = judged(
        wrap("<next_action>end_conversation</next_action><zzz>1</zzz>"),
        branch=CONVERSATION,
        **settings,
    )
    assert [code for code, _ in faults(extra)] == ["action.extra_key"]
    none = judged(wrap("<content>x</content>"), **settings)
    assert faults(none) == [("action.missing_field", "/next_action")]

    native = judged(message(calls=[call("search", {"query": "q"})]), **settings)
    assert native.action_type is ActionType.CALL_TOOL


def test_another_format_is_not_read_by_accident() -> None:
    """A JSON action is no XML one, as text and as a mapping; the fault is of form."""
    action = {"next_action": "final_response", "content": "x"}
    for reply in (action, json.dumps(action)):
        result = judged(reply, response_format=XML)
        assert (result.code, result.error_category) == ("format.malformed", Category.FORMAT_ERROR)
    assert judged(XML.spell(action)).code == "json.syntax"


def test_a_format_may_be_given_ready_made() -> None:
    """An instance serves without being registered."""
    assert ValidationProcessor(processor().topology, XML).processors[-1].format_name == "xml"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("{}", "format.malformed"),
        ('{"final_response": {"next_action": "ask_user", "question": "?"}}', "format.malformed"),
        ('{"next_action": "final_response", "content": "x"}', "format.malformed"),
        ("prose", "json.syntax"),
        ("[1]", "shape.not_object"),
        ('{"dance": {}}', "action.unknown"),
        ('{"final_response": {"content": "x"}}', ""),
    ],
)
def test_a_format_of_one_s_own_is_not_taken_for_json_actions(reply: str, code: str) -> None:
    """A reply that a format cannot read lacks no other format's member; a format of JSON reports
    that it is none.
    """
    assert processor(response_format=KEYED).validate(reply, "Coordinator").code == code


class Lines(KeyedFormat):
    """A format that is no JSON, and says itself what it wants."""

    class Reader(ResponseProcessor):
        """Reads the first word of a text."""

        views = ("text",)
        format_name = "lines"

        def can_process(self, response: Any) -> bool:
            """Take what begins right."""
            return str(response).startswith("action:")

        def process(self, response: Any) -> dict[str, Any]:
            """Return the rest as an answer."""
            return {"next_action": "final_response", "content": response.partition(":")[2]}

        def priority(self) -> int:
            """Rank as formats do."""
            return 80

    def create_processor(self) -> ResponseProcessor:
        """Make the reader."""
        return self.Reader()


def test_a_format_that_is_no_json_is_not_told_of_json() -> None:
    """A text that its processor does not take is not in the format; where JSON would break is
    nobody's matter.
    """
    made = processor(response_format=Lines())
    assert made.validate("action:hi", "Coordinator").final_response == "hi"
    assert made.validate("hi", "Coordinator").code == "format.malformed"


def test_a_reminder_is_the_format_s_own() -> None:
    """A format says its rule again unless it has better words; one of the six methods alone names
    itself.
    """
    assert KEYED.reminder() == KEYED.rule()
    bare: Any = type(
        "Bare", (BaseResponseFormat,), {name: lambda self, *_: "bare" for name in METHODS}
    )()
    assert "BARE" in bare.reminder()
    assert "next_action" not in bare.reminder()


def test_another_word_for_extra_members_forbids_none() -> None:
    """Only ``forbid`` forbids members that an action does not name: any other word breaks no
    verdict.
    """
    written = JSONResponseFormat(extra=cast("Any", "ignore"))
    assert (
        processor(response_format=written)
        .validate({"next_action": "final_response", "content": "x", "y": 1}, "Coordinator")
        .is_valid
    )
