"""The rules of each step, before and after it: every bullet of AGN-036 sections 4.1 to 4.10."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strictreply.loop.values import PipelineStep, ToolCallManifest
from strictreply.pipeline import AgentPipelineContextValidator, PromptContent, ResponseType
from strictreply.pipeline._validator import STEPS
from support.loops import some
from support.pipeline.contexts import (
    CALL,
    CONTINUATION,
    FOLLOW_ON,
    INITIAL,
    NEXT_TURN,
    PAYLOAD,
    RESULT,
    SECOND_CALL,
    SERVER_CALL,
    SESSION,
    TURN,
    WAITING,
    WALKS,
    Case,
    after,
    before,
    built,
    case,
    changed,
    codes,
    kinds_at,
    received,
    rules,
    waiting,
)

VALIDATOR = AgentPipelineContextValidator()
EXTENDED = AgentPipelineContextValidator(profile="extended")

HANDLER = PipelineStep.REQUEST_HANDLER
RESTORER = PipelineStep.SESSION_RESTORER
RESOLVER = PipelineStep.AGENT_CONTEXT_RESOLVER
CLIENT_RESTORER = PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER
CLIENT_RESOLVER = PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER
CREATOR = PipelineStep.AGENT_SESSION_CREATOR
LOADER = PipelineStep.AGENT_CONTEXT_LOADER
PROMPT = PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER
REASONER = PipelineStep.REASONER
LLM = PipelineStep.LLM_CLIENT
BUILDER = PipelineStep.RESPONSE_BUILDER

EMPTY = ToolCallManifest()
NO_SESSION: dict[str, Any] = {"/session": None}
NO_TURN: dict[str, Any] = {"/turn": None}
NO_AGENT: dict[str, Any] = {"/agent_context": None}
NO_CONVERSATION: dict[str, Any] = {"/conversation_context": None}
A_SESSION = {"/session": SESSION}
A_TURN = {"/turn": TURN}
AN_AGENT = {"/agent_context": before(REASONER).agent_context}
A_CONVERSATION = {"/conversation_context": before(REASONER).conversation_context}
FOLLOWED = changed(received(FOLLOW_ON), A_SESSION | A_TURN)
UNREADY = {"/prompt": PromptContent()}

CASES: dict[str, Case] = {
    "session_restorer.pre.path": Case(before(RESTORER), received(CONTINUATION)),
    "session_restorer.pre.ids_present": Case(before(RESTORER), received(INITIAL)),
    "session_restorer.pre.session_null": case(before(RESTORER), A_SESSION),
    "session_restorer.pre.turn_null": case(before(RESTORER), A_TURN),
    "session_restorer.post.path": Case(
        after(RESTORER), changed(received(CONTINUATION), A_SESSION | {"/turn": NEXT_TURN})
    ),
    "session_restorer.post.session_populated": case(after(RESTORER), NO_SESSION),
    "session_restorer.post.turn_populated": case(after(RESTORER), NO_TURN),
    "session_restorer.post.turn_differs": case(after(RESTORER), A_TURN),
    "session_restorer.post.session_mode": case(after(RESTORER), {"/session/mode": "  "}),
    "agent_context_resolver.pre.session_null": case(before(RESOLVER), A_SESSION),
    "agent_context_resolver.pre.turn_null": case(before(RESOLVER), A_TURN),
    "agent_context_resolver.post.agent_context_populated": case(after(RESOLVER), NO_AGENT),
    "agent_context_resolver.post.conversation_context_populated": case(
        after(RESOLVER), NO_CONVERSATION
    ),
    "client_tool_call_session_restorer.pre.path": Case(
        before(CLIENT_RESTORER), received(FOLLOW_ON)
    ),
    "client_tool_call_session_restorer.pre.session_null": case(before(CLIENT_RESTORER), A_SESSION),
    "client_tool_call_session_restorer.pre.turn_null": case(before(CLIENT_RESTORER), A_TURN),
    "client_tool_call_session_restorer.post.path": Case(after(CLIENT_RESTORER), FOLLOWED),
    "client_tool_call_session_restorer.post.session_populated": case(
        after(CLIENT_RESTORER), NO_SESSION
    ),
    "client_tool_call_session_restorer.post.turn_same": case(
        after(CLIENT_RESTORER), {"/turn": NEXT_TURN}
    ),
    "client_tool_call_session_restorer.post.session_mode": case(
        after(CLIENT_RESTORER), {"/session/mode": None}
    ),
    "client_tool_continuation_resolver.pre.session_populated": case(
        before(CLIENT_RESOLVER), NO_SESSION
    ),
    "client_tool_continuation_resolver.pre.turn_populated": case(before(CLIENT_RESOLVER), NO_TURN),
    "client_tool_continuation_resolver.pre.tool_results_present": Case(
        before(CLIENT_RESOLVER), FOLLOWED
    ),
    "client_tool_continuation_resolver.pre.agent_context_null": case(
        before(CLIENT_RESOLVER), AN_AGENT, profile="extended"
    ),
    "client_tool_continuation_resolver.pre.conversation_context_null": case(
        before(CLIENT_RESOLVER), A_CONVERSATION, profile="extended"
    ),
    "client_tool_continuation_resolver.post.manifest_not_empty": case(
        after(CLIENT_RESOLVER), {"/tool_call_manifest": EMPTY}
    ),
    "client_tool_continuation_resolver.post.turn_same": case(
        after(CLIENT_RESOLVER), {"/turn": NEXT_TURN}
    ),
    "client_tool_continuation_resolver.post.session_populated": case(
        after(CLIENT_RESOLVER), NO_SESSION, profile="extended"
    ),
    "client_tool_continuation_resolver.post.agent_context_null": case(
        after(CLIENT_RESOLVER), AN_AGENT, profile="extended"
    ),
    "client_tool_continuation_resolver.post.conversation_context_null": case(
        after(CLIENT_RESOLVER), A_CONVERSATION, profile="extended"
    ),
    "agent_session_creator.pre.agent_context_populated": case(before(CREATOR), NO_AGENT),
    "agent_session_creator.pre.conversation_context_populated": case(
        before(CREATOR), NO_CONVERSATION
    ),
    "agent_session_creator.pre.session_null": case(before(CREATOR), A_SESSION),
    "agent_session_creator.pre.turn_null": case(before(CREATOR), A_TURN),
    "agent_session_creator.post.session_populated": case(after(CREATOR), NO_SESSION),
    "agent_session_creator.post.turn_populated": case(after(CREATOR), NO_TURN),
    "agent_context_loader.pre.session_populated": case(before(LOADER), NO_SESSION),
    "agent_context_loader.pre.turn_populated": case(before(LOADER), NO_TURN),
    "agent_context_loader.post.agent_context_populated": case(after(LOADER), NO_AGENT),
    "agent_context_loader.post.conversation_context_populated": case(
        after(LOADER), NO_CONVERSATION
    ),
    "prompt_content_provider_initializer.pre.session_populated": case(before(PROMPT), NO_SESSION),
    "prompt_content_provider_initializer.pre.turn_populated": case(before(PROMPT), NO_TURN),
    "prompt_content_provider_initializer.pre.agent_context_populated": case(
        before(PROMPT), NO_AGENT
    ),
    "prompt_content_provider_initializer.pre.conversation_context_populated": case(
        before(PROMPT), NO_CONVERSATION
    ),
    "prompt_content_provider_initializer.pre.manifest_not_null": case(
        before(PROMPT, CONTINUATION), {"/tool_call_manifest": None}
    ),
    "prompt_content_provider_initializer.post.prompt_ready": case(after(PROMPT), UNREADY),
    "reasoner.pre.prompt_ready": case(before(REASONER), UNREADY),
    "reasoner.pre.session_populated": case(before(REASONER), NO_SESSION, profile="extended"),
    "reasoner.pre.turn_populated": case(before(REASONER), NO_TURN, profile="extended"),
    "reasoner.pre.agent_context_populated": case(before(REASONER), NO_AGENT, profile="extended"),
    "reasoner.pre.conversation_context_populated": case(
        before(REASONER), NO_CONVERSATION, profile="extended"
    ),
    "llm_client.pre.payload_null": case(before(LLM), {"/response_payload": PAYLOAD}),
    "llm_client.pre.manifest_not_empty": case(
        before(LLM, CONTINUATION), {"/tool_call_manifest": EMPTY}
    ),
    "llm_client.pre.calls_answered": case(
        before(LLM), {"/outgoing_manifest": WAITING}, profile="extended"
    ),
    "llm_client.post.not_both": case(after(LLM), {"/outgoing_manifest": WAITING}),
    "llm_client.post.not_neither": case(after(LLM), {"/response_payload": None}),
    "llm_client.post.calls_for_client": case(
        waiting(), {"/outgoing_manifest/tool_calls": (SERVER_CALL,)}
    ),
    "response_builder.pre.response_type": case(
        before(BUILDER), {"/response_type": ResponseType.NOT_READY}
    ),
    "response_builder.pre.final_text": case(
        before(BUILDER), {"/response_payload/primary_output_text": "  "}
    ),
    "response_builder.pre.continuation_calls": case(waiting(), {"/outgoing_manifest": None}),
    "response_builder.post.response_built": case(after(BUILDER), {"/built": None}),
    "response_builder.post.context_unchanged": case(after(BUILDER), {"/correlation_id": "r2"}),
}
"""For each rule of a step a context that breaks it alone."""


@pytest.mark.parametrize("validator", [VALIDATOR, EXTENDED], ids=["published", "extended"])
@pytest.mark.parametrize(
    ("kind", "step"), [(kind, step) for kind, walk in WALKS.items() for step in walk]
)
def test_a_good_context_passes_every_step_of_its_walk(
    validator: Any, kind: Any, step: PipelineStep
) -> None:
    """Before and after each step of the three walks there is nothing to report."""
    assert rules(validator.validate_pre_step(before(step, kind), step)) == []
    assert rules(validator.validate_post_step(after(step, kind), step)) == []


@pytest.mark.parametrize("step", [step for step in PipelineStep if step is not HANDLER])
@pytest.mark.req("P5")
def test_the_core_comes_first_and_alone(step: PipelineStep) -> None:
    """A context that breaks the core and the step's rules is told of the core only, before and
    after the step.
    """
    bad = changed(
        received(kinds_at(step)[0]),
        {"/envelope/org": None, "/session": "x", "/turn": {}, "/built": 5},
    )
    assert rules(VALIDATOR.validate_pre_step(bad, step)) == ["core.org"]
    assert rules(VALIDATOR.validate_post_step(bad, step)) == ["core.org"]


@pytest.mark.req("P27")
def test_the_request_handler_leaves_a_core_that_holds() -> None:
    """Nothing is asked before it, not even that there is a context (X21); after it, the core."""
    assert VALIDATOR.validate_pre_step(None, HANDLER).successful
    assert VALIDATOR.validate_pre_step({"type": 99}, HANDLER).successful
    assert codes(VALIDATOR.validate_post_step(None, HANDLER)) == ["NULL_CONTEXT"]
    assert codes(
        VALIDATOR.validate_post_step(changed(received(INITIAL), {"/time_stamp": ""}), HANDLER)
    ) == ["CORE_TIMESTAMP"]
    assert VALIDATOR.validate_post_step(received(INITIAL), HANDLER).successful


def bullets(step: PipelineStep, stage: str) -> dict[str, str]:
    """Break every rule of one step and stage alone, and return the codes.

    They are those of the published profile.
    """
    entry = VALIDATOR.validate_pre_step if stage == "pre" else VALIDATOR.validate_post_step
    found = {}
    for name, broken in CASES.items():
        where, _, rule = name.rpartition(".")
        if where == f"{step.name.lower()}.{stage}" and not broken.options:
            assert entry(broken.good, step).successful
            (found[rule],) = set(codes(entry(broken.bad, step)))
    return found


SESSION_TURN = {"session_populated": "SESSION_MISSING", "turn_populated": "TURN_MISSING"}
NULLS = {"session_null": "SESSION_NOT_NULL", "turn_null": "TURN_NOT_NULL"}
BOTH_CONTEXTS = {
    "agent_context_populated": "AGENT_CONTEXT_MISSING",
    "conversation_context_populated": "CONVERSATION_CONTEXT_MISSING",
}
TURN_AND_MODE = {"session_populated": "SESSION_MISSING", "session_mode": "SESSION_MODE_MISSING"}


@pytest.mark.parametrize(
    ("step", "pre", "post"),
    [
        pytest.param(
            RESTORER,
            {"path": "WRONG_PATH", "ids_present": "REQUEST_ID_MISSING", **NULLS},
            {
                "path": "WRONG_PATH",
                **SESSION_TURN,
                "turn_differs": "TURN_NOT_NEW",
                "session_mode": "SESSION_MODE_MISSING",
            },
            marks=pytest.mark.req("P28"),
        ),
        pytest.param(RESOLVER, NULLS, BOTH_CONTEXTS, marks=pytest.mark.req("P29")),
        pytest.param(
            CLIENT_RESTORER,
            {"path": "WRONG_PATH", **NULLS},
            {"path": "WRONG_PATH", **TURN_AND_MODE, "turn_same": "TURN_NOT_SAME"},
        ),
        pytest.param(
            CLIENT_RESOLVER,
            {**SESSION_TURN, "tool_results_present": "TOOL_RESULTS_MISSING"},
            {"manifest_not_empty": "EMPTY_MANIFEST", "turn_same": "TURN_NOT_SAME"},
        ),
        pytest.param(CREATOR, BOTH_CONTEXTS | NULLS, SESSION_TURN, marks=pytest.mark.req("P31")),
        pytest.param(LOADER, SESSION_TURN, BOTH_CONTEXTS, marks=pytest.mark.req("P32")),
        pytest.param(
            PROMPT,
            {**SESSION_TURN, **BOTH_CONTEXTS, "manifest_not_null": "NULL_MANIFEST"},
            {"prompt_ready": "PROMPT_NOT_READY"},
            marks=pytest.mark.req("P33"),
        ),
        pytest.param(REASONER, {"prompt_ready": "PROMPT_NOT_READY"}, {}),
    ],
)
def test_each_bullet_of_a_step_alone_has_its_code(
    step: PipelineStep, pre: dict[str, str], post: dict[str, str]
) -> None:
    """The rules before and after a step are just these; each bullet broken alone has its code."""
    assert bullets(step, "pre") == pre
    assert bullets(step, "post") == post


@pytest.mark.parametrize("member", ["session_id", "turn_id"])
@pytest.mark.req("P28")
def test_what_is_restored_is_named_by_the_request(member: str) -> None:
    """Of a follow-on each missing id is the core's to report; an initial request names neither, so
    both are told.
    """
    unnamed = changed(before(RESTORER), {f"/envelope/{member}": ""})
    assert rules(VALIDATOR.validate_pre_step(unnamed, RESTORER)) == [
        f"core.follow_on.{member}_present"
    ]
    missing = VALIDATOR.validate_pre_step(received(INITIAL), RESTORER).errors
    assert f"/envelope/{member}" in [error.path for error in missing]
    assert {error.code for error in missing} == {"REQUEST_ID_MISSING"}


@pytest.mark.parametrize("value", ["x", {}, 5, [], True, {"id": " "}, {"id": 5}])
def test_populated_means_with_an_id(value: object) -> None:
    """A session or turn of another kind, or without an id, is neither null nor populated."""
    for member, missing, there in (
        ("session", "SESSION_MISSING", "SESSION_NOT_NULL"),
        ("turn", "TURN_MISSING", "TURN_NOT_NULL"),
    ):
        bad = {f"/{member}": value}
        assert codes(VALIDATOR.validate_pre_step(changed(before(LOADER), bad), LOADER)) == [missing]
        assert codes(VALIDATOR.validate_pre_step(changed(before(RESOLVER), bad), RESOLVER)) == [
            there
        ]


def test_the_restorers_keep_to_their_requests() -> None:
    """X14: a continuation may not go by the SessionRestorer, nor anything else by the other one."""
    restored = changed(received(CONTINUATION), A_SESSION | {"/turn": NEXT_TURN})
    assert codes(VALIDATOR.validate_pre_step(received(CONTINUATION), RESTORER)) == ["WRONG_PATH"]
    assert codes(VALIDATOR.validate_post_step(restored, RESTORER)) == ["WRONG_PATH"]
    for kind in (INITIAL, FOLLOW_ON):
        assert codes(VALIDATOR.validate_pre_step(received(kind), CLIENT_RESTORER)) == ["WRONG_PATH"]
    assert VALIDATOR.validate_post_step(after(RESTORER), RESTORER).successful
    assert VALIDATOR.validate_post_step(after(CLIENT_RESTORER), CLIENT_RESTORER).successful


def test_the_envelope_stays_as_it_was_received() -> None:
    """X15: an initial request still names no session after one was made, so its core holds at every
    later step.
    """
    for step in some(WALKS[INITIAL]):
        assert after(step).envelope == received(INITIAL).envelope
        assert VALIDATOR.validate_core(after(step)).successful


@pytest.mark.req("P30")
def test_the_resolver_leaves_a_valid_manifest_of_the_same_turn() -> None:
    """No manifest, one that is not valid and another turn are errors; contexts and session only
    where extended asks.
    """
    assert bullets(CLIENT_RESOLVER, "pre") == {
        **SESSION_TURN,
        "tool_results_present": "TOOL_RESULTS_MISSING",
    }
    good = after(CLIENT_RESOLVER)
    assert VALIDATOR.validate_post_step(good, CLIENT_RESOLVER).successful

    def left(
        changes: dict[str, Any], validator: AgentPipelineContextValidator = VALIDATOR
    ) -> list[tuple[str, str]]:
        result = validator.validate_post_step(changed(good, changes), CLIENT_RESOLVER)
        return [(error.code, error.path) for error in result.errors]

    assert left({"/tool_call_manifest": None})[0] == ("NULL_MANIFEST", "/tool_call_manifest")
    assert left({"/tool_call_manifest/tool_call_results": (RESULT,)}) == [
        ("COUNT_MISMATCH", "/tool_call_manifest")
    ]
    assert left({"/tool_call_manifest/tool_call_results/1/result_json": None}) == [
        ("MISSING_RESULT_JSON", "/tool_call_manifest/tool_call_results/1/result_json")
    ]
    assert left({"/turn": NEXT_TURN}) == left({"/turn": None}) == [("TURN_NOT_SAME", "/turn/id")]

    for changes, code in (
        (AN_AGENT, "AGENT_CONTEXT_NOT_NULL"),
        (A_CONVERSATION, "CONVERSATION_CONTEXT_NOT_NULL"),
        (NO_SESSION, "SESSION_MISSING"),
    ):
        assert left(changes) == []
        assert [found for found, _ in left(changes, EXTENDED)] == [code]

    for changes, code in (
        (AN_AGENT, "AGENT_CONTEXT_NOT_NULL"),
        (A_CONVERSATION, "CONVERSATION_CONTEXT_NOT_NULL"),
    ):
        early = changed(before(CLIENT_RESOLVER), changes)
        assert VALIDATOR.validate_pre_step(early, CLIENT_RESOLVER).successful
        assert codes(EXTENDED.validate_pre_step(early, CLIENT_RESOLVER)) == [code]


@pytest.mark.req("P33")
def test_only_a_continuation_needs_its_manifest() -> None:
    """X18: it is the type of the request that asks for the manifest, whatever the response is to
    be.
    """
    bare = {"/tool_call_manifest": None, "/response_type": ResponseType.TOOL_CONTINUATION}
    for kind in (INITIAL, FOLLOW_ON):
        assert VALIDATOR.validate_pre_step(changed(before(PROMPT, kind), bare), PROMPT).successful
    for other in (ResponseType.NOT_READY, ResponseType.FINAL):
        ctx = changed(before(PROMPT, CONTINUATION), bare | {"/response_type": other})
        assert codes(VALIDATOR.validate_pre_step(ctx, PROMPT)) == ["NULL_MANIFEST"]


@pytest.mark.req("P34")
def test_the_reasoner_needs_the_core_and_a_ready_prompt() -> None:
    """The core and readiness are asked before it, session, turn and contexts where extended asks;
    after it the core.
    """
    assert codes(
        VALIDATOR.validate_pre_step(changed(before(REASONER), {"/time_stamp": ""}), REASONER)
    ) == ["CORE_TIMESTAMP"]
    bare = changed(before(REASONER), NO_SESSION | NO_TURN | NO_AGENT | NO_CONVERSATION)
    assert VALIDATOR.validate_pre_step(bare, REASONER).successful
    assert codes(EXTENDED.validate_pre_step(bare, REASONER)) == [
        "SESSION_MISSING",
        "TURN_MISSING",
        "AGENT_CONTEXT_MISSING",
        "CONVERSATION_CONTEXT_MISSING",
    ]

    assert VALIDATOR.validate_post_step(changed(bare, UNREADY), REASONER).successful


@pytest.mark.parametrize("ready", [False, None, 1, "yes", {}])
@pytest.mark.req("P41")
def test_ready_is_a_flag_that_was_set(ready: object) -> None:
    """A prompt is ready when its flag is true, not because there is one: after it is made, and
    before it is used.
    """
    bad = {"/prompt/ready": ready}
    assert codes(VALIDATOR.validate_post_step(changed(after(PROMPT), bad), PROMPT)) == [
        "PROMPT_NOT_READY"
    ]
    assert codes(VALIDATOR.validate_pre_step(changed(before(REASONER), bad), REASONER)) == [
        "PROMPT_NOT_READY"
    ]


@pytest.mark.req("P35")
def test_the_model_is_asked_without_an_answer_and_with_a_valid_manifest() -> None:
    """A payload before the LLMClient is an error; the manifest is judged in a continuation, and in
    nothing else.
    """
    broken = {"/tool_call_manifest": replace(WAITING)}
    assert bullets(LLM, "pre") == {
        "payload_null": "PAYLOAD_NOT_NULL",
        "manifest_not_empty": "EMPTY_MANIFEST",
    }

    assert codes(VALIDATOR.validate_pre_step(changed(before(LLM, CONTINUATION), broken), LLM)) == [
        "COUNT_MISMATCH"
    ]
    assert (
        codes(
            VALIDATOR.validate_pre_step(
                changed(before(LLM, CONTINUATION), {"/tool_call_manifest": None}), LLM
            )
        )[0]
        == "NULL_MANIFEST"
    )

    for kind in (INITIAL, FOLLOW_ON):
        assert VALIDATOR.validate_pre_step(changed(before(LLM, kind), broken), LLM).successful


@pytest.mark.req("P63")
def test_a_continuation_may_not_answer_nothing() -> None:
    """The manifest without calls is valid by its definition, and not enough for a continuation, at
    both its steps.
    """
    assert VALIDATOR.validate_tool_call_manifest(EMPTY).successful
    empty = {"/tool_call_manifest": EMPTY}
    assert codes(
        VALIDATOR.validate_post_step(changed(after(CLIENT_RESOLVER), empty), CLIENT_RESOLVER)
    ) == ["EMPTY_MANIFEST"]
    assert codes(VALIDATOR.validate_pre_step(changed(before(LLM, CONTINUATION), empty), LLM)) == [
        "EMPTY_MANIFEST"
    ]


@pytest.mark.parametrize(
    ("payload", "calls", "expected"),
    [(PAYLOAD, (), []), (None, (CALL,), []), (PAYLOAD, (CALL,), ["BOTH"]), (None, (), ["NEITHER"])],
)
@pytest.mark.parametrize("kind", [INITIAL, FOLLOW_ON, CONTINUATION])
@pytest.mark.req("P35", "P37")
def test_the_model_leaves_one_outcome(
    kind: Any, payload: Any, calls: Any, expected: list[str]
) -> None:
    """An answer or client calls: both is BOTH, neither is NEITHER."""
    left = replace(
        before(LLM, kind),
        response_payload=payload,
        outgoing_manifest=ToolCallManifest(tool_calls=calls),
    )
    assert codes(VALIDATOR.validate_post_step(left, LLM)) == expected


@pytest.mark.parametrize(
    "payload",
    [{}, {"files": []}, {"primary_output_text": None}, "text", 5, [], [1], False, PAYLOAD],
)
@pytest.mark.req("P35", "P37")
def test_calls_stand_beside_no_payload_of_any_kind(payload: object) -> None:
    """A continuation has no payload: one that holds no text, or is none, is an error beside calls
    all the same.
    """
    left = changed(waiting(), {"/response_payload": payload})
    (error,) = VALIDATOR.validate_post_step(left, LLM).errors
    assert (error.code, error.rule) == ("BOTH", "llm_client.post.not_both")
    alone = changed(left, {"/outgoing_manifest": None})
    assert codes(VALIDATOR.validate_post_step(alone, LLM)) == (
        [] if payload is PAYLOAD else ["NEITHER"]
    )


def test_answered_calls_are_not_present_any_more() -> None:
    """X17: what has its result does not hinder an answer, and is not an outcome by itself."""
    manifest = ToolCallManifest(tool_calls=(CALL,), tool_call_results=(RESULT,))
    final = changed(after(LLM), {"/outgoing_manifest": manifest})
    assert VALIDATOR.validate_post_step(final, LLM).successful
    assert codes(
        VALIDATOR.validate_post_step(changed(final, {"/response_payload": None}), LLM)
    ) == ["NEITHER"]

    half = changed(
        waiting(), {"/outgoing_manifest": replace(manifest, tool_calls=(CALL, SECOND_CALL))}
    )
    assert VALIDATOR.validate_post_step(half, LLM).successful


@pytest.mark.req("P38")
def test_calls_that_are_left_are_the_clients() -> None:
    """A pending call that is run here is an error that names it, unless server calls are allowed
    (X13).
    """
    left = changed(waiting(), {"/outgoing_manifest/tool_calls": (SECOND_CALL, SERVER_CALL)})
    (error,) = VALIDATOR.validate_post_step(left, LLM).errors
    assert (error.code, error.index, error.tool_call_id, error.name) == (
        "SERVER_CALL_LEFT",
        1,
        "tc1",
        "toolA",
    )

    assert error.path == "/outgoing_manifest/tool_calls/1/requires_client_execution"
    loop = AgentPipelineContextValidator(allow_server_tool_calls=True)
    server = changed(left, {"/response_type": ResponseType.SERVER_TOOLS})
    assert loop.validate_post_step(server, LLM).successful

    assert codes(loop.validate_post_step(changed(server, {"/response_payload": PAYLOAD}), LLM)) == [
        "BOTH"
    ]
    assert codes(loop.validate_pre_step(server, BUILDER)) == ["RESPONSE_TYPE"]


@pytest.mark.parametrize(
    "outcome", [*ResponseType, None, "final", 5, {}, "Final", "ToolContinuation"]
)
@pytest.mark.req("P36")
def test_a_response_is_built_from_two_outcomes(outcome: object) -> None:
    """Final and ToolContinuation, and no other type of response, in their own spelling."""
    final = codes(
        VALIDATOR.validate_pre_step(changed(before(BUILDER), {"/response_type": outcome}), BUILDER)
    )
    calls = codes(
        VALIDATOR.validate_pre_step(changed(waiting(), {"/response_type": outcome}), BUILDER)
    )
    wanted = {
        "Final": ([], ["OUTPUT_TEXT_MISSING"]),
        "ToolContinuation": (["TOOL_CALLS_MISSING"], []),
    }

    default = (["RESPONSE_TYPE"], ["RESPONSE_TYPE"])
    assert (final, calls) == (wanted.get(outcome, default) if isinstance(outcome, str) else default)


@pytest.mark.parametrize(
    ("ctx", "expected"),
    [
        (changed(before(BUILDER), {"/response_payload/primary_output_text": "hi"}), []),
        (
            changed(before(BUILDER), {"/response_payload/primary_output_text": "  "}),
            ["OUTPUT_TEXT_MISSING"],
        ),
        (changed(before(BUILDER), {"/response_payload": None}), ["OUTPUT_TEXT_MISSING"]),
        (waiting(), []),
        (changed(waiting(), {"/outgoing_manifest": None}), ["TOOL_CALLS_MISSING"]),
        (
            changed(waiting(), {"/outgoing_manifest/tool_call_results": (RESULT,)}),
            ["TOOL_CALLS_MISSING"],
        ),
        (changed(before(BUILDER), {"/response_type": ResponseType.NOT_READY}), ["RESPONSE_TYPE"]),
    ],
)
@pytest.mark.req("P39")
def test_an_outcome_has_what_its_response_needs(ctx: Any, expected: list[str]) -> None:
    """Final needs a text that says something, ToolContinuation a manifest with a waiting call."""
    assert codes(VALIDATOR.validate_pre_step(ctx, BUILDER)) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"/correlation_id": "r2"},
        {"/envelope/instructions": "Something else."},
        {"/session/mode": "other"},
        {"/turn/iterations": 9},
        {"/response_payload/primary_output_text": "No."},
        {"/outgoing_manifest": ToolCallManifest()},
        {"/built/fingerprint": ""},
        {"/built/fingerprint": None},
        {"/session/messages": ({"content": object()},)},
    ],
)
@pytest.mark.req("P36", "P40")
def test_the_context_is_the_one_the_response_was_built_from(change: dict[str, Any]) -> None:
    """Whatever is changed while the response is built, even where no rule looks, is
    CONTEXT_CHANGED.
    """
    good = after(BUILDER)
    assert VALIDATOR.validate_post_step(good, BUILDER).successful
    assert codes(VALIDATOR.validate_post_step(changed(good, change), BUILDER)) == [
        "CONTEXT_CHANGED"
    ]


@pytest.mark.parametrize(
    "value", [None, {}, "x", 5, [], {"fingerprint": "f"}, {"response": None, "fingerprint": "f"}]
)
@pytest.mark.req("P36")
def test_there_is_a_response(value: object) -> None:
    """Without a response that is the one error: the rules of responses and changes need one."""
    assert codes(
        VALIDATOR.validate_post_step(changed(after(BUILDER), {"/built": value}), BUILDER)
    ) == ["RESPONSE_MISSING"]


@pytest.mark.req("P36")
def test_the_response_is_held_to_its_own_rules() -> None:
    """A response that AGN-033 refuses has its own rule and the member's path in the context."""
    ctx = built(
        before(BUILDER),
        {"kind": "final", "session_id": "s1", "turn_id": "t1", "mode_display_name": "G"},
    )
    (error,) = VALIDATOR.validate_post_step(ctx, BUILDER).errors
    assert (error.rule, error.path) == (
        "response.final.primary_output_text",
        "/built/response/primary_output_text",
    )


def test_a_fresh_manifest_is_asked_for_where_extended() -> None:
    """X17: the model is not asked while a call of its last reply waits; the published text does not
    say so.
    """
    left = changed(before(LLM), {"/outgoing_manifest": WAITING})
    assert VALIDATOR.validate_pre_step(left, LLM).successful
    (error,) = EXTENDED.validate_pre_step(left, LLM).errors
    assert (error.code, error.index, error.tool_call_id) == ("CALLS_PENDING", 0, "tc1")


@pytest.mark.req("P8")
def test_every_step_is_declared_and_one_without_rules_says_so() -> None:
    """Each step has its declaration; where nothing is asked beyond the core, or nothing at all,
    that is a value.
    """
    declared = {step: (each.section, each.pre, each.post) for step, each in STEPS.items()}
    assert list(declared) == sorted(PipelineStep)
    assert declared[HANDLER] == ("4.1", None, ())
    assert declared[PipelineStep.ACP_COMMAND_HANDLER] == ("", (), ())

    assert [step for step, (_, pre, _) in declared.items() if not pre] == [
        HANDLER,
        PipelineStep.ACP_COMMAND_HANDLER,
    ]
    assert [step for step, (_, _, post) in declared.items() if not post] == [
        HANDLER,
        PipelineStep.ACP_COMMAND_HANDLER,
        REASONER,
    ]

    bare = received(INITIAL)
    assert VALIDATOR.validate_pre_step(bare, PipelineStep.ACP_COMMAND_HANDLER).successful
    assert codes(VALIDATOR.validate_pre_step(None, PipelineStep.ACP_COMMAND_HANDLER)) == [
        "NULL_CONTEXT"
    ]
