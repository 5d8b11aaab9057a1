"""V8, V9: one table judges every ending, wherever it stands.

Of several statements about a reply's end the worst one is believed.
"""

from __future__ import annotations

from itertools import permutations
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from strictreply import Code, Contract, Invalid, Remedy, Valid
from strictreply.wires import WIRES
from strictreply.wires._chat import ends_plainly
from strictreply.wires._endings import ERROR_OPENINGS, ERRORS, FINISH_REASONS, WORST_FIRST
from support.openai_shapes import call, completion, message

SEARCH = {
    "name": "search",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}
CONTRACTS = {
    "native": Contract(tools=[SEARCH]),
    "text": Contract(tools=[SEARCH], channel="text"),
    "structured": Contract(
        tools=[SEARCH], answer={"type": "object", "properties": {"query": {"type": "string"}}}
    ),
    "by tool": Contract(tools=[SEARCH], answer_style="tool"),
}
GOOD = message(None, [call("search", {"query": "x"})])
TAIL = message('query": "tea"})', tool_calls=None)

PROVIDERS: list[tuple[str, dict[str, Any], Code, str]] = [
    ("OpenAI", {"finish_reason": "length"}, Code.REPLY_TRUNCATED, "/choices/0/finish_reason"),
    (
        "OpenAI",
        {"finish_reason": "content_filter"},
        Code.REPLY_CONTENT_FILTER,
        "/choices/0/finish_reason",
    ),
    (
        "Mistral",
        {"finish_reason": "model_length"},
        Code.REPLY_TRUNCATED,
        "/choices/0/finish_reason",
    ),
    ("Mistral", {"finish_reason": "error"}, Code.REPLY_BROKEN_OFF, "/choices/0/finish_reason"),
    (
        "DeepSeek",
        {"finish_reason": "insufficient_system_resource"},
        Code.REPLY_BROKEN_OFF,
        "/choices/0/finish_reason",
    ),
    ("Z.ai", {"finish_reason": "sensitive"}, Code.REPLY_CONTENT_FILTER, "/choices/0/finish_reason"),
    ("Z.ai", {"finish_reason": "network_error"}, Code.REPLY_BROKEN_OFF, "/choices/0/finish_reason"),
    ("vLLM", {"finish_reason": "abort"}, Code.REPLY_BROKEN_OFF, "/choices/0/finish_reason"),
    ("vLLM", {"finish_reason": "repetition"}, Code.REPLY_BROKEN_OFF, "/choices/0/finish_reason"),
    ("Ollama", {"finish_reason": "load"}, Code.REPLY_BROKEN_OFF, "/choices/0/finish_reason"),
    ("Anthropic", {"finish_reason": "refusal"}, Code.REPLY_REFUSAL, "/choices/0/finish_reason"),
    (
        "Anthropic",
        {"finish_reason": "pause_turn"},
        Code.REPLY_BROKEN_OFF,
        "/choices/0/finish_reason",
    ),
    (
        "Bedrock",
        {"finish_reason": "guardrail_intervened"},
        Code.REPLY_CONTENT_FILTER,
        "/choices/0/finish_reason",
    ),
    (
        "Bedrock",
        {"finish_reason": "malformed_tool_use"},
        Code.CALL_UNREADABLE,
        "/choices/0/finish_reason",
    ),
    (
        "Bedrock",
        {"finish_reason": "malformed_model_output"},
        Code.REPLY_UNREADABLE,
        "/choices/0/finish_reason",
    ),
    (
        "Gemini, OpenAI endpoint",
        {"finish_reason": "function_call_filter: MALFORMED_FUNCTION_CALL"},
        *(Code.CALL_UNREADABLE, "/choices/0/finish_reason"),
    ),
    (
        "Gemini, OpenAI endpoint",
        {"finish_reason": "function_call_filter: UNEXPECTED_TOOL_CALL"},
        *(Code.CALL_UNREADABLE, "/choices/0/finish_reason"),
    ),
    (
        "Gemini, OpenAI endpoint",
        {"finish_reason": "content_filter: PROHIBITED_CONTENT"},
        *(Code.REPLY_CONTENT_FILTER, "/choices/0/finish_reason"),
    ),
    (
        "OpenRouter",
        {"finish_reason": "stop", "native_finish_reason": "max_tokens"},
        *(Code.REPLY_TRUNCATED, "/choices/0/native_finish_reason"),
    ),
    (
        "OpenRouter",
        {"finish_reason": "tool_calls", "native_finish_reason": "MAX_TOKENS"},
        *(Code.REPLY_TRUNCATED, "/choices/0/native_finish_reason"),
    ),
    (
        "OpenRouter",
        {
            "finish_reason": "error",
            "native_finish_reason": "MALFORMED_FUNCTION_CALL",
            "error": {"code": 502},
        },
        *(Code.CALL_UNREADABLE, "/choices/0/native_finish_reason"),
    ),
    (
        "OpenRouter",
        {"finish_reason": "stop", "error": {"code": 502}},
        Code.ENVELOPE_ERROR,
        "/choices/0/error",
    ),
    (
        "LiteLLM",
        {
            "finish_reason": "stop",
            "provider_specific_fields": {"native_finish_reason": "MALFORMED_FUNCTION_CALL"},
        },
        *(Code.CALL_UNREADABLE, "/choices/0/provider_specific_fields/native_finish_reason"),
    ),
    (
        "LiteLLM",
        {"finish_reason": "stop", "provider_specific_fields": {"native_finish_reason": "refusal"}},
        *(Code.REPLY_REFUSAL, "/choices/0/provider_specific_fields/native_finish_reason"),
    ),
    (
        "LiteLLM",
        {
            "finish_reason": "stop",
            "provider_specific_fields": {"error": {"message": "upstream died"}},
        },
        *(Code.ENVELOPE_ERROR, "/choices/0/provider_specific_fields/error"),
    ),
]
"""A provider, its choice, what that says of the reply, and where it says so."""


def ended(of: object = GOOD, **choice: Any) -> dict[str, Any]:
    """Return a completion whose choice has this finish reason."""
    response = completion(of)
    response["choices"][0] |= choice
    return response


def only(verdict: object) -> tuple[str, str]:
    """Return the code and the path of the only fault of a refused reply."""
    assert isinstance(verdict, Invalid)
    (issue,) = verdict.issues
    return issue.code, issue.path


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
@pytest.mark.parametrize(("provider", "choice", "code", "path"), PROVIDERS)
@pytest.mark.parametrize("of", [GOOD, TAIL, message("It is done."), message('{"query":"x"}')])
def test_v8_an_ending_is_read_where_the_provider_puts_it(
    contract: Contract,
    provider: str,
    choice: dict[str, Any],
    code: Code,
    path: str,
    of: dict[str, Any],
) -> None:
    """Whatever the message and the contract, a bad ending is the only issue, at its place."""
    assert only(contract.check(ended(of, **choice))) == (code, path), provider
    assert only(contract.check(ChatCompletion.model_construct(**ended(of, **choice)))) == (
        code,
        path,
    )


@pytest.mark.parametrize(("reason", "code"), FINISH_REASONS.items())
def test_v8_each_row_of_the_table(reason: str, code: Code) -> None:
    """Each reason means the same in every place and spelling: translated, native, kept by a
    gateway.
    """
    contract = CONTRACTS["native"]
    for spelled in (
        reason,
        reason.upper(),
        reason.replace("_", "-"),
        f"FinishReason.{reason.upper()}",
        f" {reason} ",
    ):
        for choice in (
            {"finish_reason": spelled},
            {"finish_reason": "stop", "native_finish_reason": spelled},
            {
                "finish_reason": "tool_calls",
                "provider_specific_fields": {"native_finish_reason": spelled},
            },
        ):
            assert only(contract.check(ended(**choice)))[0] == code

        kept = GOOD | {"provider_specific_fields": {"native_finish_reason": spelled}}
        assert only(contract.check(ended(kept, finish_reason="stop")))[0] == code


@given(st.permutations([None, *WORST_FIRST]), st.integers(0, 3))
def test_v8_the_worst_ending_is_believed(codes: list[Code | None], count: int) -> None:
    """Of all signals of an end in a response, the worst counts, wherever it stands."""
    words = {code: word for word, code in FINISH_REASONS.items()} | {
        None: "stop",
        Code.ENVELOPE_ERROR: "stop",
    }
    told = codes[: count + 1]

    places: list[dict[str, str]] = [{}, {}, {}, {}]
    for place, code in zip(places, told, strict=False):
        place["reason"] = words[code]

    choice: dict[str, Any] = {
        "finish_reason": places[0].get("reason"),
        "native_finish_reason": places[1].get("reason"),
        "provider_specific_fields": {"native_finish_reason": places[2].get("reason")},
    }
    of = GOOD | {"provider_specific_fields": {"native_finish_reason": places[3].get("reason")}}

    if Code.ENVELOPE_ERROR in told:
        choice["error"] = {"code": 502}

    bad = [code for code in WORST_FIRST if code in told]
    verdict = CONTRACTS["native"].check(ended(of, **choice))
    assert (only(verdict)[0] == bad[0]) if bad else isinstance(verdict, Valid)


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
@pytest.mark.parametrize("of", [None, {}, [], "x"])
@pytest.mark.parametrize(
    ("reason", "code"),
    [("content_filter", Code.REPLY_CONTENT_FILTER), ("length", Code.REPLY_TRUNCATED)],
)
def test_v9_an_ending_needs_no_message(
    contract: Contract, of: Any, reason: str, code: Code
) -> None:
    """A filter may leave no message at all: how the reply ended is read all the same."""
    assert only(contract.check(ended(of, finish_reason=reason)))[0] == code


def test_vllms_stop_reason_is_no_ending() -> None:
    """``stop_reason`` of vLLM is the caller's own stop text, whatever word that is."""
    assert isinstance(
        CONTRACTS["native"].check(ended(finish_reason="stop", stop_reason="length")), Valid
    )


@pytest.mark.parametrize(
    "native", ["STOP", "end_turn", "tool_use", "eos_token", "completed", 7, ["length"], None]
)
def test_good_native_reasons_change_nothing(native: object) -> None:
    """A native reason that is unknown or good is no issue."""
    fields = {"native_finish_reason": native, "error": None}
    choice = {"native_finish_reason": native, "provider_specific_fields": fields}
    assert isinstance(CONTRACTS["native"].check(ended(**choice)), Valid)


_FILTERED = Code.REPLY_CONTENT_FILTER

ERROR_BODIES: list[tuple[str, dict[str, Any], Code]] = [
    (
        "Groq",
        {"code": "tool_use_failed", "failed_generation": "<function=search>"},
        Code.CALL_UNREADABLE,
    ),
    ("Groq", {"code": "json_validate_failed", "failed_generation": "{"}, Code.REPLY_UNREADABLE),
    (
        "Azure",
        {"code": "content_filter", "param": "prompt", "status": 400},
        Code.REPLY_CONTENT_FILTER,
    ),
    (
        "Azure",
        {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}},
        Code.REPLY_CONTENT_FILTER,
    ),
    (
        "LiteLLM before Azure",
        {
            "code": "400",
            "provider_specific_fields": {"innererror": {"code": "ResponsibleAIPolicyViolation"}},
        },
        Code.REPLY_CONTENT_FILTER,
    ),
    ("OpenRouter", {"code": 403, "type": "content_policy_violation"}, Code.REPLY_CONTENT_FILTER),
    (
        "Alibaba",
        {"code": "data_inspection_failed", "type": "data_inspection_failed"},
        Code.REPLY_CONTENT_FILTER,
    ),
    ("DashScope", {"code": "DataInspectionFailed"}, Code.REPLY_CONTENT_FILTER),
    (
        "DeepSeek",
        {"message": "Content Exists Risk", "code": "invalid_request_error"},
        Code.REPLY_CONTENT_FILTER,
    ),
    (
        "Ollama",
        {"message": "error parsing tool call: raw='{', err=unexpected end"},
        Code.CALL_UNREADABLE,
    ),
    (
        "llama.cpp",
        {"code": 500, "message": "Failed to parse input at pos 12: </tool_call>"},
        Code.CALL_UNREADABLE,
    ),
    (
        "Groq, gpt-oss",
        {"code": "output_parse_failed", "failed_generation": "{"},
        Code.REPLY_UNREADABLE,
    ),
    (
        "Groq, a new word",
        {"code": "some_new_word", "failed_generation": "{"},
        Code.REPLY_UNREADABLE,
    ),
    (
        "Bedrock",
        {"message": "Model produced invalid sequence as part of ToolUse. See …"},
        Code.CALL_UNREADABLE,
    ),
    (
        "Azure",
        {
            "message": "Could not finish the message because max_tokens or model output limit was "
            "reached. Please …"
        },
        Code.REPLY_TRUNCATED,
    ),
    (
        "Anthropic",
        {"message": "Output blocked by content filtering policy"},
        Code.REPLY_CONTENT_FILTER,
    ),
    (
        "OpenAI",
        {"code": "invalid_prompt", "message": "Invalid prompt: your prompt was flagged as …"},
        _FILTERED,
    ),
    ("anybody", {"message": "overloaded"}, Code.ENVELOPE_ERROR),
    ("anybody", {"message": "the content filter is down", "code": 7}, Code.ENVELOPE_ERROR),
]


@pytest.mark.parametrize(("provider", "error", "code"), ERROR_BODIES)
def test_v9_an_error_is_classed_by_what_it_says_of_the_reply(
    provider: str, error: dict[str, Any], code: Code
) -> None:
    """An error instead of a reply, or beside one, is the model's fault, a filter, or the server's
    fault.
    """
    contract = CONTRACTS["native"]
    beside = ended(provider_specific_fields={"error": error})
    for response in (
        {"error": error},
        completion(GOOD) | {"error": error},
        ended(error=error),
        beside,
    ):
        assert only(contract.check(response))[0] == code, provider


@pytest.mark.parametrize(("word", "code"), [*ERRORS.items(), *ERROR_OPENINGS.items()])
def test_v9_each_row_of_the_errors(word: str, code: Code) -> None:
    """Each row is found by the code or the message of an error; what the model wrote is not in our
    words.
    """
    for error in ({"message": word}, {"message": word.upper()}, word):
        verdict = CONTRACTS["text"].check({"error": error})
        assert only(verdict)[0] == code
        assert isinstance(verdict, Invalid)
        assert word not in verdict.summary or word in code.template


def test_remedies_of_the_new_codes() -> None:
    """A reply that a provider could not read is corrected by the model."""
    for code in (Code.CALL_UNREADABLE, Code.REPLY_UNREADABLE, Code.CALL_AS_TEXT, Code.CALL_MISSING):
        assert code.remedy is Remedy.CORRECT


def test_the_order_of_endings_is_total() -> None:
    """Each code of the tables has its place in the order in which endings are believed."""
    assert set(WORST_FIRST) >= {
        *FINISH_REASONS.values(),
        *ERRORS.values(),
        *ERROR_OPENINGS.values(),
    }
    assert all(one != other for one, other in permutations(WORST_FIRST, 2))


SAID: st.SearchStrategy[Any] = st.none() | st.sampled_from(
    [
        "",
        "stop",
        "STOP",
        "tool_calls",
        "length",
        "FinishReason.STOP",
        {"message": "no"},
        {"error": {"code": "x"}},
        1,
        [],
    ]
)
HELD = [
    "error",
    "refusal",
    "native_finish_reason",
    "provider_specific_fields",
    "finish_reason",
    "message",
    "other",
]


@given(*[st.dictionaries(st.sampled_from(HELD), SAID) | st.none()] * 3)
def test_an_ordinary_end_is_seen_at_once(response: Any, choice: Any, told: Any) -> None:
    """The fast path for ordinary ends skips nothing that the tables would report."""
    if isinstance(told, dict):
        told |= {"role": "assistant", "content": "x"}

    if isinstance(choice, dict):
        choice["message"] = told

    whole = {**(response or {}), "choices": [choice]}
    opened = WIRES["chat"].opened(whole, None)
    # the same in a mapping that is no dict, which is looked at member by member
    assert WIRES["chat"].opened(MappingProxyType(whole), None) == opened

    if ends_plainly(whole, choice, told):
        assert not isinstance(opened, Invalid)
