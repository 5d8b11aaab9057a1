"""V10: a text that is, as a whole, calls of declared tools is a fault.

A text that speaks of a call is an answer.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strictreply import Contract, ContractError, DirectAnswer, Invalid, Remedy, Valid
from strictreply.contract._call_forms import NAMES
from strictreply.contract._spelled_calls import CALLS, HEADS, MARKERS, is_call
from strictreply.core import shape
from support.openai_shapes import call, completion, message

SEARCH = {
    "name": "search",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
}
NOW = {"name": "now"}
TOOLS = {"search", "now"}
CONTRACT = Contract(tools=[SEARCH, NOW])
JSON_MODE = {"response_format": {"type": "json_object"}}
BAR = "\uff5c"  # DeepSeek's tokens have full-width bars

SPELLINGS: dict[str, str] = {
    "OpenAI's members": '{"name": "search", "arguments": {"query": "x"}}',
    "arguments as text": '{"name": "search", "arguments": "{\\"query\\": \\"x\\"}"}',
    "the text channel's members": '{"tool": "search", "args": {"query": "x"}}',
    "Llama's members": '{"type": "function", "name": "search", "parameters": {"query": "x"}}',
    "LangChain's members": '{"thought": "hm", "action": "search", "action_input": "x"}',
    "multi_tool_use": (
        '{"tool_uses": [{"recipient_name": "functions.search", "parameters": {"query": "x"}}]}'
    ),
    "an API call": (
        '{"id": "c", "type": "function", "function": {"name": "search", "arguments": "{}"}}'
    ),
    "an API message": (
        '{"role": "assistant", "content": null, "tool_calls": [{"id": "c", '
        '"type": "function", "function": {"name": "search", "arguments": "{}"}}]}'
    ),
    "a list": '[{"name": "search", "arguments": {"query": "x"}}, {"name": "now", "arguments": {}}]',
    "a list with a tool that is not there": (
        '[{"name": "serch", "arguments": {}}, {"name": "now", "arguments": {}}]'
    ),
    "lines of JSON": (
        '{"name": "search", "arguments": {"query": "x"}}\n{"name": "now", "arguments": {}}'
    ),
    "separated by semicolons": (
        '{"name": "now", "parameters": {}}; {"name": "now", "parameters": {}}'
    ),
    "a raw line break in a string": '{"name": "search", "arguments": {"query": "a\nb"}}',
    "a code fence": '```json\n{"name": "search", "arguments": {"query": "x"}}\n```',
    "a fence without a word": '\n```\n[{"name": "search", "arguments": {"query": "x"}}]\n```\n',
    "after a thought": '<think>hm</think>\n\n{"name": "search", "arguments": {"query": "x"}}',
    "Hermes, Qwen": '<tool_call>\n{"name": "search", "arguments": {"query": "x"}}\n</tool_call>',
    "Hermes, two": (
        '<tool_call>{"name": "now", "arguments": {}}</tool_call>\n'
        '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    ),
    "Hermes, no opening tag": '{"name": "search", "arguments": {"query": "x"}}\n</tool_call>',
    "Hermes, cut": '<tool_call>\n{"name": "search", "arguments": {"query": "x',
    "Hermes, not JSON": '<tool_call>{"name": "search", "arguments": {query: 1}}</tool_call>',
    "Hermes, a prefix": (
        '<function_call> {"name": "search", "args": {}} <function_call> {"name": "now", "args": {}}'
    ),
    "Hermes, cut, a name among the arguments": (
        '<tool_call>{"arguments": {"name": "x"}, "name": "search", "id": "'
    ),
    "Groq, tool-use": (
        '<tool-use>\n{"tool_calls": [{"function": {"name": "search"}, '
        '"parameters": {}}]}\n</tool-use>'
    ),
    "Qwen3-Coder": (
        "<tool_call>\n<function=search>\n<parameter=query>\n"
        "x\n</parameter>\n</function>\n</tool_call>"
    ),
    "Llama 3.1, function tag": '<function=search>{"query": "x"}</function>',
    "Llama 3.1, function tag, cut": '<function=search>{"query": "x',
    "Llama 3.1, python_tag": (
        '<|python_tag|>{"name": "search", "parameters": {"query": "x"}}<|eom_id|>'
    ),
    "Llama 3.1, built-in": '<|python_tag|>search.call(query="x")',
    "Llama 4": '<|python_start|>{"name": "search", "parameters": {"query": "x"}}<|python_end|>',
    "LFM, Llama 4, in Python": "<|tool_call_start|>[search(query='x'), now()]<|tool_call_end|>",
    "Mistral": '[TOOL_CALLS][{"name": "search", "arguments": {"query": "x"}}]</s>',
    "Mistral Small": '[TOOL_CALLS]search{"query": "x"}',
    "Devstral": '[TOOL_CALLS]search[ARGS]{"query": "x"}',
    "Mistral, with an id": '[TOOL_CALLS]search[CALL_ID]a1b2c3d4e[ARGS]{"query": "x"}',
    "DeepSeek V3": (
        f"<{BAR}tool▁calls▁begin{BAR}>"
        f"<{BAR}tool▁call▁begin{BAR}>function<{BAR}tool▁sep{BAR}>search\n"
        f'```json\n{{"query": "x"}}\n```<{BAR}tool▁call▁end{BAR}><{BAR}tool▁calls▁end{BAR}>'
    ),
    "DeepSeek V3.1": (
        f"<{BAR}tool▁calls▁begin{BAR}>"
        f"<{BAR}tool▁call▁begin{BAR}>search<{BAR}tool▁sep{BAR}>"
        f'{{"query": "x"}}<{BAR}tool▁call▁end{BAR}><{BAR}tool▁calls▁end{BAR}>'
    ),
    "DeepSeek V3.2": (
        f'<{BAR}DSML{BAR}function_calls><{BAR}DSML{BAR}invoke name="search">'
        f'<{BAR}DSML{BAR}parameter name="query">x</{BAR}DSML{BAR}parameter>'
        f"</{BAR}DSML{BAR}invoke></{BAR}DSML{BAR}function_calls>"
    ),
    "Claude": (
        '<function_calls>\n<invoke name="search">\n'
        '<parameter name="query">x</parameter>\n</invoke>\n</function_calls>'
    ),
    "MiniMax": (
        '<minimax:tool_call>\n<invoke name="search">\n'
        '<parameter name="query">x</parameter>\n</invoke>\n</minimax:tool_call>'
    ),
    "GLM": "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
    "GLM, no arguments": "<tool_call>now\n</tool_call>",
    "Kimi K2": (
        "<|tool_calls_section_begin|>"
        "<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>"
        '{"query": "x"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "gpt-oss": (
        "<|channel|>commentary to=functions.search <|constrain|>json<|message|>"
        '{"query": "x"}<|call|>'
    ),
    "gpt-oss, from the start": (
        '<|start|>assistant<|channel|>commentary to=functions.search<|message|>{"query": "x"}'
    ),
    "Gemini": '```tool_code\nprint(default_api.search(query="x"))\n```',
    "Gemma 4": '<|tool_call>call:search{query:<|"|>x<|"|>}<tool_call|>',
    "Phi-4-mini": 'functools[{"name": "search", "arguments": {"query": "x"}}]',
    "ChatGLM": 'search\n{"query": "x"}',
    "Gemini's own member": '{"functionCall": {"name": "search", "args": {"query": "x"}}}',
    "a Python dictionary": "{'name': 'search', 'arguments': {'query': 'x'}}",
    "a comma too many": '{"name": "search", "arguments": {"query": "x",}}',
    "a bracket too few": '{"name": "search", "arguments": {"query": "x"}',
    "a bracket too many": '{"name": "search", "arguments": {"query": "x"}}}',
    "broken in a fence": '```json\n[{"name": "search", "arguments": {"query": "x",}}]\n```',
    "JSON, cut": '{"name": "search", "arguments": {"query": "x',
    "a fence on one line": '```json {"name": "search", "arguments": {"query": "x"}}```',
    "a fence of tildes": '~~~json\n{"name": "search", "arguments": {"query": "x"}}\n~~~',
    "a byte order mark": '\ufeff{"name": "search", "arguments": {"query": "x"}}',
    "after a thought that the template began": (
        'I search.\n</think>\n\n{"name": "search", "arguments": {"query": "x"}}'
    ),
    "after thinking": '<thinking>hm</thinking>{"name": "search", "arguments": {"query": "x"}}',
    "Nemotron": '<TOOLCALL>[{"name": "search", "arguments": {"query": "x"}}]</TOOLCALL>',
    "Nemotron, cut": '<TOOLCALL>[{"name": "search", "arguments": {"query',
    "Olmo 3": "<function_calls>\nsearch(query='x')\nnow()\n</function_calls>",
    "Claude, with its namespace": (
        '<ns:function_calls><ns:invoke name="search">'
        '<ns:parameter name="query">x</ns:parameter></ns:invoke></ns:function_calls>'
    ),
    "Gemma 3": '```tool_code\nprint(search(query="x"))\n```',
    "Llama 3.1, function tag, not closed": '<function=search{"query": "x"}></function>',
    "DeepSeek, plain bars": (
        "<|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>search\n"
        '```json\n{"query": "x"}\n```<|tool_call_end|><|tool_calls_end|>'
    ),
    "gpt-oss, after its analysis": (
        "<|channel|>analysis<|message|>hm<|end|>"
        "<|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>"
        '{"query": "x"}<|call|>'
    ),
    "gpt-oss, the role first": (
        '<|start|>assistant to=functions.search<|channel|>commentary json<|message|>{"query": "x"}'
    ),
    "gpt-oss, without its tokens": 'commentary to=functions.search json{"query": "x"}',
    "OpenAI's namespace": 'functions.search({"query": "x"})',
    "OpenAI's namespace, numbered": 'functions.search:0{"query": "x"}',
    "Command R": 'Action: ```json\n[{"tool_name": "search", "parameters": {"query": "x"}}]\n```',
    "Command R7B": (
        "<|START_ACTION|>"
        '[{"tool_call_id": "0", "tool_name": "search", "parameters": {}}]<|END_ACTION|>'
    ),
    "ReAct": 'Thought: I search.\nAction: search\nAction Input: {"query": "x"}\nObservation:',
}

WITHOUT_MARKERS = {
    "OpenAI's members",
    "arguments as text",
    "the text channel's members",
    "Llama's members",
    "LangChain's members",
    "multi_tool_use",
    "an API call",
    "an API message",
    "a list",
    "a list with a tool that is not there",
    "lines of JSON",
    "separated by semicolons",
    "a raw line break in a string",
    "a code fence",
    "a fence without a word",
    "after a thought",
    "Hermes, no opening tag",
    "Gemini",
    "Gemma 3",
    "ChatGLM",
    "Gemini's own member",
    "a Python dictionary",
    "a comma too many",
    "a bracket too few",
    "a bracket too many",
    "broken in a fence",
    "JSON, cut",
    "a fence on one line",
    "a fence of tildes",
    "a byte order mark",
    "after thinking",
    "gpt-oss, without its tokens",
    "OpenAI's namespace",
    "OpenAI's namespace, numbered",
    "Command R",
    "ReAct",
}
"""What these name has no marker of a template, so that prose around it makes it an answer."""

BEGUN_BEFORE = "after a thought that the template began"
"""What stands before this one is all of it the thought."""

ANSWERS: dict[str, str] = {
    "prose": "I searched for x, and found nothing.",
    "a tool's name": "search",
    "a tool's name in prose": "search is the tool for that: give it a query.",
    "prose before": 'I would call {"name": "search", "arguments": {"query": "x"}}',
    "prose after": '{"name": "search", "arguments": {"query": "x"}} is what I would send.',
    "a tag in prose": (
        'Qwen writes <tool_call>{"name": "search", "arguments": {}}</tool_call> for that.'
    ),
    "prose behind a tag": (
        '<tool_call>{"name": "search", "arguments": {}}</tool_call> is how Qwen calls search.'
    ),
    "a tag that is spoken of": "<tool_call> is a tag; search is a tool.",
    "tags without a call": "<tool_call></tool_call>",
    "a page with an example": (
        'So:\n\n```json\n{"name": "search", "arguments": {"query": "x"}}\n```\n\nThen wait.'
    ),
    "a tool that is not there": '{"name": "serch", "arguments": {"query": "x"}}',
    "a tagged call of a tool that is not there": (
        '<tool_call>{"name": "serch", "arguments": {}}</tool_call>'
    ),
    "JSON about something else": '{"name": "search", "price": 3}',
    "JSON of one member": '{"name": "search"}',
    "a definition": '{"name": "search", "description": "Find.", "parameters": {"type": "object"}}',
    "a definition without words": (
        '{"name": "search", "parameters": {"type": "object", "properties": {}}}'
    ),
    "a definition as the API has it": json.dumps({"type": "function", "function": SEARCH}),
    "a definition without members": (
        '{"name": "search", "parameters": {"type": "object", "required": []}}'
    ),
    "a method that is called": "search.call(this)",
    "broken JSON about something else": '{"name": "search", "price": 3,}',
    "a form of a call": '{"name": "search", "arguments": {…}} is what I would send.',
    "a tag that ends a thought": "Models end a thought with </think>, then they search.",
    "an action in prose": "Action: search\nAction Input: whatever you like.",
    "numbers": "[1, 2, 3]",
    "an empty list": "[]",
    "an empty object": "{}",
    "code": '```python\nsearch(query="x")\n```',
    "a line of code": 'search(query="x")',
    "code with braces": "search {\n  color: red;\n}",
    "a link": "[search](https://example.org/now)",
    "a link with words in brackets": "[search (now)](https://example.org)",
    "a template": "now {date} then {time}",
    "JSON with a call in it": '{"plan": [{"name": "search", "arguments": {"query": "x"}}]}',
    "JSON with more beside": '{"name": "search", "arguments": {"query": "x"}, "result": 3}',
}


def judged(text: str, contract: Contract = CONTRACT) -> Any:
    """Judge a text as the content of a message."""
    return contract.check(message(text))


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_v10_a_call_as_text_is_no_answer(text: str) -> None:
    """Each known spelling is refused, white space around it or none, and nothing of it is in our
    words.
    """
    for around in (text, f"\n  {text}\n"):
        verdict = judged(around)
        assert isinstance(verdict, Invalid)
        (issue,) = verdict.issues
        assert (issue.code, issue.path, issue.remedy) == (
            "call.as_text",
            "/content",
            Remedy.CORRECT,
        )

        assert "query" not in issue.message + issue.hint


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_who_expects_such_answers_may_have_them(text: str) -> None:
    """The opt-out has a name; and where nothing can be called, or an answer has a schema, it is no
    call.
    """
    answer = Valid(DirectAnswer(text))
    assert judged(text, Contract(tools=[SEARCH, NOW], text_calls="answer")) == answer
    assert judged(text, Contract()) == answer
    assert judged(text, Contract(tools=[{"name": "other"}])) == answer
    none = CONTRACT.with_choice("none")
    assert judged(text, none) == answer


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_v10_what_speaks_of_a_call_is_an_answer(text: str) -> None:
    """Prose around a call, another tool, a definition, JSON and code about other things stay
    answers.
    """
    assert judged(text) == Valid(DirectAnswer(text))


@pytest.mark.parametrize(
    "text", ['{"name": "search", "arguments": {"query": "x"}}', '{"name": "now", "arguments": {}}']
)
def test_v10_a_call_is_no_structured_answer_either(text: str) -> None:
    """A call in JSON is reported as such, where any object is an answer and where a schema refuses
    it.
    """
    asked, _ = shape(CONTRACT, {"messages": [], "response_format": {"type": "json_object"}})
    invoice = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
    for contract in (asked, Contract(tools=[SEARCH, NOW], answer=invoice)):
        verdict = judged(text, contract)
        assert [issue.code for issue in verdict.issues] == ["call.as_text"]

    lenient, _ = shape(
        Contract(tools=[SEARCH, NOW], text_calls="answer"), {"messages": [], **JSON_MODE}
    )
    assert isinstance(judged(text, lenient), Valid)
    assert isinstance(judged('{"name": "search", "price": 3}', asked), Valid)


def test_a_structured_answer_has_a_schema_of_its_own() -> None:
    """An answer that fits its schema is accepted, even if it looks like a call; so are calls of the
    text channel.
    """
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
    }
    text = '{"name": "now", "arguments": {}}'
    assert isinstance(judged(text, Contract(tools=[NOW], answer=schema)), Valid)
    assert isinstance(
        judged('{"tool": "now", "args": {}}', Contract(tools=[NOW], channel="text")), Valid
    )

    required = judged(text, CONTRACT.with_choice("required"))
    assert [issue.code for issue in required.issues] == ["tool.required"]


def test_the_keyword_goes_with_the_contract() -> None:
    """The contract's setting also applies to the tools of a request; other values are refused."""
    for said, kind in (("answer", Valid), ("refuse", Invalid)):
        contract = Contract(text_calls=said)  # type: ignore[call-overload]  # one of the two
        terms, _ = shape(contract, {"messages": [], "tools": [NOW]})
        assert isinstance(judged('{"name": "now", "arguments": {}}', terms), kind)
    with pytest.raises(ContractError):
        Contract(text_calls="call")  # type: ignore[call-overload]  # neither


@pytest.mark.parametrize("row", [*MARKERS, *CALLS, *HEADS])
def test_each_row_of_the_table_is_met(row: str) -> None:
    """No row is without a spelling that it serves."""
    pattern = re.compile(row, re.DOTALL | re.IGNORECASE)
    assert any(pattern.search(text) for text in SPELLINGS.values())


PROSE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
WORDS = st.lists(
    st.sampled_from([*"{}[]<>()|:,;\"'`", *TOOLS, " ", "\n", "name", "tool_call", "```json", "x"]),
    max_size=30,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "a", "b"]), inner)
    ),
    max_leaves=8,
)


@given(PROSE, st.sampled_from(sorted(WITHOUT_MARKERS)), PROSE, st.booleans())
def test_v10_prose_around_a_call_without_markers_is_an_answer(
    before: str, name: str, after: str, at_end: bool
) -> None:
    """A call with letters before or after it is an answer, because the text says more than the
    call; with the markers of a template it is none (test_call_templates.py).
    """
    text = SPELLINGS[name]
    assume(re.search(r"[^\W_]", before) and re.search(r"[^\W_]", after))
    assert not is_call(f"Look: {before}. {text}", TOOLS)
    if at_end and not text.endswith(("x", 'x"}')) and "cut" not in name:
        assert not is_call(f"{text}\n\nSo: {after}.", TOOLS)


@given(VALUES)
def test_v10_json_without_a_declared_name_is_an_answer(value: Any) -> None:
    """JSON is a call only by the name of a declared tool."""
    text = json.dumps(value)
    if not any(f'"{name}"' in text for name in TOOLS):
        assert not is_call(text, TOOLS)
        assert not is_call(f"```json\n{text}\n```", TOOLS)


@given(PROSE | WORDS.map("".join))
def test_any_text_is_judged(text: str) -> None:
    """No text raises, and a text without the name of a declared tool is never a call."""
    found = is_call(text, TOOLS)
    assert not found or any(name in text for name in TOOLS)
    assert not is_call(text, ())


@pytest.mark.parametrize("calls", [None, [], ()])
@pytest.mark.parametrize("reason", ["tool_calls", "function_call", "tool_use"])
@pytest.mark.parametrize(
    "contract",
    [CONTRACT, Contract(tools=[NOW], answer={"type": "object"})],
    ids=["text", "structured"],
)
def test_v10_a_promised_call_that_is_not_there(
    contract: Contract, reason: str, calls: object
) -> None:
    """A reply that ended to call a tool and calls none lost it: its text is not an answer."""
    for choice in (
        {"finish_reason": reason},
        {"finish_reason": "stop", "native_finish_reason": reason},
    ):
        response = completion(message("{}", tool_calls=calls))
        response["choices"][0] |= choice
        verdict = contract.check(response)
        assert isinstance(verdict, Invalid)

        assert [(issue.code, issue.path) for issue in verdict.issues] == [
            ("call.missing", "/tool_calls")
        ]


def test_a_promise_is_kept_by_calls_or_cannot_be_made() -> None:
    """With its calls there, without any tool, and in the text channel, the ending is an ending like
    any other.
    """
    assert isinstance(
        CONTRACT.check(completion(message(None, [call("now", {})]), "tool_calls")), Valid
    )
    assert isinstance(Contract().check(completion(message("hi"), "tool_calls")), Valid)
    union = Contract(tools=[NOW], channel="text")
    assert isinstance(union.check(completion(message('{"answer": "hi"}'), "tool_calls")), Valid)

    empty = CONTRACT.check(completion(message(None), "tool_calls"))
    assert isinstance(empty, Invalid)
    assert [issue.code for issue in empty.issues] == ["reply.empty"]
