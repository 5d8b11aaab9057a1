"""Processors: who is asked in which order, and what each translates.

A failing processor ends nothing.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from openai.types.chat import ChatCompletion

from strictreply import Category, ContractError, Invalid
from strictreply.coordination import ActionType, ErrorMessage, Origin
from strictreply.coordination.formats import (
    ErrorMessageProcessor,
    ProcessorChain,
    ResponseProcessor,
    StructuredJSONProcessor,
    TextResponseProcessor,
    ToolCallProcessor,
)
from strictreply.coordination.validation import ValidationProcessor
from support.coordination.team import GRAPH, faults, judged, processor
from support.openai_shapes import call, completion, message

JSON_INVOKE = '{"next_action": "invoke_agent", "action_input": "Worker1"}'


class CustomProcessor(ResponseProcessor):
    """As the concept page prints it, with the map it leaves out."""

    def can_process(self, response):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, D102
        return isinstance(response, dict) and "custom_field" in response

    def process(self, response):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, D102
        return {
            "next_action": self.map_action(response["custom_field"]),
            "content": response.get("data"),
        }

    def priority(self):  # type: ignore[no-untyped-def]  # noqa: ANN201, D102
        return 80

    def map_action(self, word: str) -> str:
        """Map the foreign word."""
        return {"done": "final_response"}[word]


class CustomFormatProcessor(ResponseProcessor):
    """As the API reference prints it, with the map it leaves out."""

    def can_process(self, response: Any) -> bool:  # noqa: D102
        return isinstance(response, dict) and "custom_action" in response

    def process(self, response: Any) -> dict[str, Any] | None:  # noqa: D102
        return {
            "next_action": self._map_action(response["custom_action"]),
            "content": response.get("data"),
        }

    def priority(self) -> int:  # noqa: D102
        return 75  # Between JSON and tool processors

    def _map_action(self, word: str) -> str:
        """Map the foreign word."""
        return {"finish": "final_response", "delegate": "invoke_agent"}[word]


class Scripted(ResponseProcessor):
    """A processor that does as it is told, and notes that it was asked."""

    asked: ClassVar[list[str]] = []

    def __init__(self, name: str, priority: int, gives: object, *, can: object = True) -> None:
        """Set the name, the rank and the answers.

        ``gives`` and ``can`` are what it answers; exceptions among them are raised.
        """
        self.name = name
        self.rank = priority
        self.gives = gives
        self.can = can

    def can_process(self, response: Any) -> bool:
        """Answer as scripted."""
        if isinstance(self.can, Exception):
            raise self.can
        return bool(self.can)

    def process(self, response: Any) -> Any:
        """Answer as scripted, and note it."""
        self.asked.append(self.name)
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives

    def priority(self) -> int:
        """Return the rank."""
        return self.rank


def final(content: str) -> dict[str, Any]:
    """Write a final response."""
    return {"next_action": "final_response", "content": content}


@pytest.mark.req("M50")
@pytest.mark.parametrize("missing", ["can_process", "process", "priority"])
def test_a_processor_has_three_methods(missing: str) -> None:
    """Neither the interface nor a processor without one of them can be made."""
    with pytest.raises(TypeError):
        ResponseProcessor()  # type: ignore[abstract]

    methods = {
        name: lambda self, *_: None
        for name in ("can_process", "process", "priority")
        if name != missing
    }
    with pytest.raises(TypeError):
        type("Partial", (ResponseProcessor,), methods)()


@pytest.mark.req("M51")
def test_the_first_that_gives_an_action_wins() -> None:
    """From the highest priority down; None leaves it to the next; when nobody gives anything, there
    is no action.
    """
    chain = ProcessorChain(
        [
            Scripted("low", 10, final("low")),
            Scripted("none", 90, None),
            Scripted("mid", 80, final("mid")),
        ]
    )
    told = {"role": "assistant", "content": '{"x": 1}'}
    assert asyncio.run(chain.process(told)) == final("mid")

    for processors in ([Scripted("none", 90, None)], []):
        assert asyncio.run(ProcessorChain(processors).process(told)) is None


@pytest.mark.req("M52")
def test_the_documented_order() -> None:
    """Errors, native calls, JSON, the application's 75, text; calls win over JSON in the same
    message (X2).
    """
    made = processor()
    for added in (TextResponseProcessor(), CustomFormatProcessor()):
        made.register_processor(added)

    assert [(type(one), one.priority()) for one in made.processors] == [
        (ErrorMessageProcessor, 100),
        (ToolCallProcessor, 90),
        (StructuredJSONProcessor, 80),
        (CustomFormatProcessor, 75),
        (TextResponseProcessor, 10),
    ]
    both = message(JSON_INVOKE, [call("search", {"query": "q"})])
    assert judged(both).action_type is ActionType.CALL_TOOL


@pytest.mark.req("M53")
def test_processors_are_registered_at_run_time() -> None:
    """95 outranks native calls; of equal ones the first registered is asked first, whenever that
    was.
    """
    made = processor()
    made.register_processor(Scripted("early", 95, final("95")))
    native = message(calls=[call("search", {"query": "q"})])
    assert made.validate(native, "Coordinator").final_response == "95"

    tied = processor()
    for name in ("first", "second", "third"):
        tied.register_processor(Scripted(name, 80, None))

    Scripted.asked.clear()
    tied.validate({"other": 1}, "Coordinator")
    assert Scripted.asked == ["first", "second", "third"]
    tied.validate(final("x"), "Coordinator")

    # JSON, registered before them, has the same rank.
    assert Scripted.asked == ["first", "second", "third"]


@pytest.mark.parametrize("wrong", [object(), ResponseProcessor, None])
def test_only_processors_are_registered(wrong: Any) -> None:
    """Anything else is refused when it is declared."""
    with pytest.raises(ContractError):
        processor().register_processor(wrong)


@pytest.mark.req("M54")
def test_json_needs_an_action() -> None:
    """A dict with ``next_action`` and nothing else."""
    reader = StructuredJSONProcessor()
    assert reader.can_process({"next_action": "x"})
    assert not any(
        map(reader.can_process, [{"content": "x"}, {}, "next_action", ["next_action"], None])
    )


@pytest.mark.req("M55")
@pytest.mark.parametrize("calls", [None, []])
@pytest.mark.parametrize("sdk", [True, False])
def test_a_message_without_calls_is_read_as_json(calls: object, *, sdk: bool) -> None:
    """Every SDK message has the field; only one with calls in it is a call."""
    spelled = {"role": "assistant", "content": JSON_INVOKE, "tool_calls": calls}
    reply = SimpleNamespace(**spelled) if sdk else spelled
    assert not ToolCallProcessor().can_process(reply)
    assert judged(reply).next_agents == ["Worker1"]


@pytest.mark.parametrize("content", [None, "", "I will search."])
def test_native_calls_are_calls_whatever_stands_beside_them(content: str | None) -> None:
    """Calls of a message, of a completion and of SDK objects; what an SDK says beside the call is
    left out.
    """
    made = call("search", {"query": "q"}) | {"index": 0}
    function = SimpleNamespace(**made["function"])
    objects = SimpleNamespace(id="call_1", type="function", function=function, index=0)
    for reply in (
        message(content, [made]),
        completion(message(content, [made])),
        SimpleNamespace(role="assistant", content=content, tool_calls=[objects]),
    ):
        result = judged(reply)
        assert (result.action_type, result.tool_calls) == (
            ActionType.CALL_TOOL,
            [call("search", {"query": "q"})],
        )


def test_the_sdk_s_own_objects_are_read() -> None:
    """A completion of the installed SDK: its content as JSON, its calls as calls."""
    spoken = ChatCompletion.model_validate(completion(message(JSON_INVOKE)))
    assert (
        judged(spoken).next_agents == judged(spoken.choices[0].message).next_agents == ["Worker1"]
    )
    called = ChatCompletion.model_validate(
        completion(message(calls=[call("search", {"query": "q"})]))
    )
    assert (
        judged(called).tool_calls
        == judged(called.choices[0].message).tool_calls
        == [call("search", {"query": "q"})]
    )


@pytest.mark.parametrize(
    "calls", ["search", {"id": "1"}, 7, ["x"], [None], [{"id": "1"}], [call("search", {})] * 200]
)
def test_malformed_native_calls_are_faults(calls: object) -> None:
    """Any malformed ``tool_calls`` is an invalid result, never a call."""
    result = judged({"role": "assistant", "content": None, "tool_calls": calls})
    assert (result.is_valid, result.tool_calls) == (False, [])


@pytest.mark.req("M56")
def test_only_errors_are_errors() -> None:
    """An object with the role ``error`` is the system's word; an assistant message is not."""
    reader = ErrorMessageProcessor()
    assert reader.can_process(ErrorMessage("boom"))
    assert not reader.can_process(message("boom"))
    assert not reader.can_process(SimpleNamespace(role="assistant", content="boom"))

    result = judged(
        ErrorMessage({"classification": "insufficient_credits", "message": "m"}), "Worker3"
    )
    assert (result.is_valid, result.action_type, result.origin) == (
        True,
        ActionType.ERROR_RECOVERY,
        Origin.SYSTEM,
    )


@pytest.mark.req("M87")
def test_an_error_that_is_no_json_is_kept_as_its_message() -> None:
    """The class is unknown, the message the words; a processor given anything else refuses it."""
    parsed = judged(ErrorMessage("boom"), "Worker3").parsed_response
    assert parsed is not None
    assert (parsed["error_details"]["classification"], parsed["error_details"]["message"]) == (
        "unknown",
        "boom",
    )
    assert isinstance(ErrorMessageProcessor().process(message("boom")), Invalid)


@pytest.mark.parametrize("spell", [dict, lambda reply: str(reply).replace("'", '"')])
def test_a_model_has_not_the_system_s_voice(spell: Any) -> None:
    """Text that may be a model's is never an error message, whatever role it claims (X8)."""
    claimed = {"role": "error", "content": "boom"}
    result = judged(spell(claimed), "Worker3")
    assert (result.is_valid, result.origin) == (False, Origin.MODEL)
    nested = judged(message(str(claimed).replace("'", '"')), "Worker3")
    assert (nested.is_valid, nested.origin) == (False, Origin.MODEL)


@pytest.mark.req("M9", "M57")
@pytest.mark.parametrize(
    "prose", ["I'm done thinking", "I was asked to call Bob", "final answer: 4", "continue", "done"]
)
def test_prose_is_never_an_action_by_its_words(prose: str) -> None:
    """Without the text processor prose is invalid; with it, prose is the final response and nothing
    else.
    """
    plain = judged(prose)
    assert (plain.is_valid, plain.error_category) == (False, Category.FORMAT_ERROR)
    opted = processor()
    opted.register_processor(TextResponseProcessor())

    result = opted.validate(prose, "Coordinator")
    assert (result.action_type, result.final_response, result.invocations) == (
        ActionType.FINAL_RESPONSE,
        prose,
        [],
    )

    assert faults(opted.validate(prose, "Worker1")) == [("topology.may_not_finish", "/next_action")]


@pytest.mark.parametrize(
    "text",
    [
        '{"next_action": "invoke_agent"',
        "```json\n{}\n```",
        '["a"]',
        "<a>",
        " ",
        'so: {"next_action": 1}',
    ],
)
def test_a_faulty_action_is_not_prose(text: str) -> None:
    """A malformed action never becomes an answer to the user."""
    opted = processor()
    opted.register_processor(TextResponseProcessor())
    assert not opted.validate(text, "Coordinator").is_valid


@pytest.mark.req("M58")
def test_foreign_shapes_are_mapped_then_judged() -> None:
    """The documents' own processors: what they give is held to the topology and to its shape like
    everything else.
    """
    made = processor()
    for custom in (CustomProcessor(), CustomFormatProcessor()):
        made.register_processor(custom)

    assert made.validate({"custom_field": "done", "data": "x"}, "Coordinator").final_response == "x"
    assert (
        made.validate('{"custom_action": "finish", "data": "x"}', "Coordinator").final_response
        == "x"
    )

    assert faults(made.validate({"custom_field": "done", "data": "x"}, "Worker1")) == [
        ("topology.may_not_finish", "/next_action")
    ]
    delegated = made.validate({"custom_action": "delegate"}, "Coordinator")
    assert {"action.missing_field", "action.extra_key"} == {code for code, _ in faults(delegated)}


@pytest.mark.req("M59")
def test_a_processor_that_raises_is_contained() -> None:
    """It is named, as a fault of form; the next ones are asked, and when one can read the reply the
    fault is a note.
    """
    made = ValidationProcessor(GRAPH)
    made.register_processor(CustomProcessor())
    result = made.validate({"custom_field": 1}, "Coordinator")
    assert (result.code, result.error_category) == (
        "format.processor_failed",
        Category.FORMAT_ERROR,
    )

    assert "CustomProcessor" in result.issues[0].message
    made.register_processor(Scripted("next", 60, final("read")))
    read = made.validate({"custom_field": 1}, "Coordinator")
    assert (read.final_response, [note.code for note in read.source.notes]) == (
        "read",
        ["format.processor_failed"],
    )


@pytest.mark.parametrize(
    "breaks", [{"gives": 7}, {"gives": ["x"]}, {"gives": None, "can": ValueError("x")}]
)
def test_a_processor_that_misbehaves_is_contained(breaks: dict[str, Any]) -> None:
    """A processor's invalid result, or an exception of its methods, is the processor's failure."""
    made = processor()
    made.register_processor(Scripted("bad", 85, **({"gives": None} | breaks)))
    assert made.validate({"other": 1}, "Coordinator").code == "format.processor_failed"
    good = made.validate(final("x"), "Coordinator")
    assert (good.final_response, len(good.source.notes)) == ("x", 1)


def test_what_a_processor_gives_is_plain_json() -> None:
    """A foreign value in an action is a fault of the reply, before anything looks into it."""
    made = processor()
    made.register_processor(
        Scripted(
            "odd",
            85,
            {"next_action": "invoke_agent", "action_input": "Worker1", "request": {"x": object()}},
        )
    )

    assert made.validate({"other": 1}, "Coordinator").code == "action.unreadable"


def test_built_in_ranks_may_be_changed() -> None:
    """As the concept page makes them, ``StructuredJSONProcessor(priority=100)``."""
    chain = ProcessorChain(
        [
            TextResponseProcessor(priority=10),
            ToolCallProcessor(priority=90),
            StructuredJSONProcessor(priority=100),
        ]
    )
    assert [type(one).__name__ for one in chain.processors] == [
        "StructuredJSONProcessor",
        "ToolCallProcessor",
        "TextResponseProcessor",
    ]


def test_text_processors_take_text_only() -> None:
    """Bytes that are no UTF-8 are no prose."""
    opted = processor()
    opted.register_processor(TextResponseProcessor())
    assert opted.validate(b"caf\xe9", "Coordinator").code == "json.encoding"
    assert opted.validate("café".encode(), "Coordinator").final_response == "café"
