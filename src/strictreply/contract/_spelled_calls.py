"""Calls written as text: the formats that models are known to use.

Also decides whether a text consists of such calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container

from strictreply.contract._call_forms import (
    ARGUMENTS,
    JSON_IN_TEXT,
    NAMES,
    SCHEMA_WORDS,
    WRAPPERS,
)
from strictreply.contract._call_search import holds_call
from strictreply.contract._call_templates import THOUGHTS
from strictreply.values._limits import JSONObject

_NAME = r"""["']?(?:functions\.|default_api\.)?(?P<name>[\w./-]{1,128}?)["']?"""
_SPACE = r"(?:[a-z]{1,20}:|\uff5cDSML\uff5c)?"  # a namespace
# the head of a turn in Harmony; servers strip some of its tokens
_TURN = r"(?:assistant<\|channel\|>)?(?:\w{1,20}\s+)?"
_JSON_TYPE = r"(?:<\|constrain\|>)?(?:json)?\s*(?:<\|message\|>)?"
_LAST = r"(?=\s*(?:```\s*)?\Z)"
_SOME = r".{0,20000}?"  # bounded, because the text after each bracket in it is examined

# Each row is a format that was seen in place of a native call, with its source;
# owner/repository#number is a thread on GitHub. A row that may also end in \Z accepts a call that
# was cut off.

# What may be around calls and between them.
MARKERS = (
    # special tokens: Llama's <|python_tag|> (raullenchai/Rapid-MLX#703), Kimi's, LFM's
    r"<\|[^|<>\n]{1,40}\|>",
    # DeepSeek's: tokens with full-width bars (vllm-project/vllm#23454)
    r"<\uff5c[^\uff5c<>\n]{1,40}\uff5c>",
    r"<\|tool_call>|<tool_call\|>",  # Gemma 4 (NousResearch/hermes-agent#38376)
    # Hermes, Qwen, GLM (NousResearch/hermes-agent#742)
    r"</?(?:tool_calls?|function_calls?|tools?|tool[-_]use)>",
    r"</?TOOLCALL>",  # Nemotron (ai-dynamo/dynamo#10115)
    # MiniMax, DeepSeek V3.2 (hermes-agent#29115)
    r"</?(?:[a-z]{1,20}:|\uff5cDSML\uff5c)(?:tool|function)_calls?>",
    # Mistral (ai-dynamo/dynamo#10725); MiniMax (NousResearch/hermes-agent#11994)
    r"\[/?TOOL_CALLS?\]",
    r"functools(?=\[)",  # Phi-4-mini (vLLM's documentation, tool parsers: phi4_mini_json)
    r"Action:(?=\s*```json\s)",  # Command R (docs.cohere.com, prompting Command R: tool use)
    r"Observation:(?=\s*\Z)",  # ReAct: the model waits for the result (QwenLM/Qwen3#197)
    r"</?s>",  # begin and end of a turn: Llama 2, Mistral
)
# Calls that are not JSON as a whole.
CALLS = (
    # Llama 3.1; Qwen3-Coder (llama.cpp#24644)
    rf"<function={_NAME}\s*(?:>|(?=\{{)).*?(?:</function>|\Z)",
    # DeepSeek V3.2, Claude (openclaw#97750)
    rf"<{_SPACE}invoke\s+name={_NAME}\s*>.*?(?:</{_SPACE}invoke>|\Z)",
    rf"{_NAME}\s*<arg_key>.*?(?=</tool_call>|\Z)",  # GLM 4.5 (pwilkin/llama.cpp#5)
    rf"{_NAME}\s*(?=</tool_call>)",  # GLM 4.5, a call without arguments
    # Gemma 4 (NousResearch/hermes-agent#38376)
    rf"call:{_NAME}\{{{_SOME}\}}(?=<tool_call\|>|\s*\Z)",
    # LFM (ggml-org/llama.cpp#23838), Llama 4: a list in Python
    rf"\[\s*{_NAME}\({_SOME}\)\s*\](?=\s*(?:<\||```|\Z))",
    # Llama 3.1, built-in tools (unslothai/unsloth#5620)
    rf"{_NAME}\.call\((?:\w+={_SOME})?\){_LAST}",
    # Gemini (langchain-ai/langchain-google#725)
    rf"(?:(?:print|python)\()?default_api\.{_NAME}\({_SOME}\){_LAST}",
    rf"(?<=```tool_code\n)(?:print\()?{_NAME}\({_SOME}\){_LAST}",  # Gemma 3 (andrewyng/aisuite#339)
    rf"{_NAME}\({_SOME}\)(?=\s*</function_calls>)",  # Olmo 3, one a line (vllm-project/vllm#26126)
    rf"functions\.{_NAME}\({_SOME}\){_LAST}",  # the namespace that OpenAI's models see
)
# What names a call before the JSON object of its arguments.
HEADS = (
    # DeepSeek V3 (google/adk-python#5654)
    rf"function<[|\uff5c]tool[▁_]sep[|\uff5c]>{_NAME}(?=\s)",
    rf"{_NAME}<[|\uff5c]tool[▁_]sep[|\uff5c]>",  # DeepSeek V3.1 (vllm-project/vllm#23454)
    rf"{_NAME}(?:\[CALL_ID\]\w+)?\[ARGS\]",  # Mistral Small, Devstral (raullenchai/Rapid-MLX#1071)
    # Kimi K2 (NousResearch/hermes-agent#24534)
    rf"{_NAME}(?::[0-9]+)?\s*<\|tool_call_argument_begin\|>",
    # gpt-oss (Rapid-MLX#480)
    rf"{_TURN}to={_NAME}\s*(?:<\|channel\|>\w{{1,20}}\s*)?{_JSON_TYPE}(?=\s*\{{)",
    # ReAct (langchain-ai/langgraph#6747)
    rf"(?:Thought:.*?\n)?Action:[ ]*{_NAME}[ ]*\r?\nAction Input:\s*(?=\{{)",
    # Mistral Small (Rapid-MLX#1071); ChatGLM: the name on a line of its own
    rf"{_NAME}(?::[0-9]+)?\s*(?=\{{)",
)
# The members that may be next to those; a value with any other member only looks like a call.
BESIDE = frozenset(
    {
        "id",
        "type",
        "index",
        "call_id",
        "tool_call_id",
        "role",
        "content",
        "thought",
        "thoughts",
        "reasoning",
    }
)
_MAX_WRAPPERS = 4
_MAX_CALLS = 128
_FLAGS = re.DOTALL | re.IGNORECASE
_FENCE = (
    r"(?:```|~~~)[a-z_]{0,20}[ \t]*(?=\r?\n)"
    r"|```(?:json)?(?=\s*[\[{])"
    r"|(?:```|~~~)(?=\s*\Z|\s*<)"
)
_SURPLUS = r"[}\]]++(?=\s*(?:```\s*)?\Z)"  # an extra bracket at the end
_BETWEEN = re.compile(
    rf"(?:[\s\ufeff]++|{_SURPLUS}|[;,](?=\s*[\[{{<])|{_FENCE}|{'|'.join(MARKERS)})*+", _FLAGS
)
_MARKER = re.compile("|".join(MARKERS), _FLAGS)
_CALLS = tuple(re.compile(row, _FLAGS) for row in CALLS)
_HEADS = tuple(re.compile(row, _FLAGS) for row in HEADS)
_NAMED = re.compile(rf'"(?:{"|".join(NAMES)})"\s*:\s*"(?P<name>[^"]{{1,128}})"')
# JSON that is cut, or not JSON, as of Python's dictionaries (huggingface/smolagents#962)
_BROKEN = re.compile(
    rf"""[\[\s]*\{{\s*["'](?:{"|".join(NAMES)})["']\s*:\s*["'](?P<name>[^"']{{1,128}})["']\s*,"""
    rf"""\s*["'](?:{"|".join(ARGUMENTS)})["']\s*:"""
    r"""(?:.*[\]}](?=\s*(?:(?:```|~~~)\s*)?\Z)|\s*\{\s*["'][^}]*\Z)""",
    _FLAGS,
)
_CLOSING = re.compile(
    r"</[\w:-]*(?:tool|function)[\w-]*>|\[/TOOL_CALLS?\]|<tool_call\|>"
    r"|<[^<>]{0,40}end[|\uff5c]>|\Z",
    _FLAGS,
)


def is_call(text: str, tools: Container[str]) -> bool:
    """Return whether a text contains a call of one of ``tools`` in place of a native one.

    It consists of calls, or it has a call between the markers of a template. It takes linear time.
    """
    text = text.replace("<\\/", "</")  # JSON in JSON, in which nothing else may be escaped
    return _is_only_calls(text, tools) or holds_call(text, tools)


def _is_only_calls(text: str, tools: Container[str]) -> bool:
    """Return whether a text consists of calls, apart from thoughts, fences and markers."""
    at = _beyond(text, _behind_thought(text))
    known = False

    for _ in range(_MAX_CALLS):  # a text that starts with so many calls is not an answer
        if at >= len(text):
            break
        if (call := _call_at(text, at, tools)) is None:
            return False

        known = known or any(name in tools for name in call[1])
        at = _beyond(text, call[0])

    return known


def _behind_thought(text: str) -> int:
    """Return the end of the thought at the start of a text; 0 without one."""
    start = text.lstrip()
    begun = next((one for one in THOUGHTS if start.startswith(one.begins)), None)
    if begun is not None:
        return text.find(begun.ends) + len(begun.ends) if begun.ends in text else 0

    # the template wrote the beginning (NousResearch/hermes-agent#35129)
    for one in THOUGHTS:
        before, end, _ = text.partition(one.ends) if one.is_begun else ("", "", "")
        if end and one.begins not in before:
            return len(before) + len(end)

    return 0


def _beyond(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def _call_at(text: str, at: int, tools: Container[str]) -> tuple[int, list[str]] | None:
    """Return the end of the call that starts here, and the tools that it names.

    None if no call starts here.
    """
    if text[at] in "{[":
        if (call := _json_call(text, at, tools)) is not None:
            return call

        # malformed JSON between markers still names a tool
        if _MARKER.search(text, 0, at):
            end = _closing(text, at)
            names = [found["name"] for found in _NAMED.finditer(text, at, end)]
            if known := [name for name in names if name in tools]:
                return end, known[:1]

    for row in (*_CALLS, *_HEADS):
        found = row.match(text, at)
        if found and found["name"] in tools:
            ends: int | None = found.end()
            if row not in _CALLS:
                ends = _end_of_arguments(text, _beyond(text, found.end()))

            return None if ends is None else (ends, [found["name"]])

    return None


def _end_of_arguments(text: str, at: int) -> int | None:
    """Return the end of the arguments after the name of a tool.

    Text that is not JSON ends at its markers. None if there are no arguments.
    """
    if not text.startswith("{", at):
        return None

    try:
        return JSON_IN_TEXT.raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return _closing(text, at) if _MARKER.search(text) else None


def _json_call(text: str, at: int, tools: Container[str]) -> tuple[int, list[str]] | None:
    try:
        value, end = JSON_IN_TEXT.raw_decode(text, at)
    except (ValueError, RecursionError):
        meant = _BROKEN.match(text, at)
        return (len(text), [meant["name"]]) if meant and meant["name"] in tools else None

    names = _names_in(value, _MAX_WRAPPERS)
    return None if names is None else (end, names)


def _closing(text: str, at: int) -> int:
    closing = _CLOSING.search(text, at)
    return closing.start() if closing else len(text)


def _names_in(value: object, depth: int) -> list[str] | None:
    """Return the tools that a JSON value calls; None if it is anything but calls."""
    if depth == 0 or not isinstance(value, dict | list) or not value:
        return None

    if isinstance(value, list):
        inside = [_names_in(one, depth - 1) for one in value]
        return None if None in inside else [name for names in inside for name in names or ()]

    for key in WRAPPERS:
        if isinstance(value.get(key), dict | list) and BESIDE.issuperset(value.keys() - {key}):
            return _names_in(value[key], depth - 1)

    return _named_call(value)


def _named_call(value: JSONObject) -> list[str] | None:
    """Return the tool that an object calls; None if it is not a call.

    A call has a name and arguments, which are not the schema of a definition.
    """
    name_key = next((key for key in NAMES if isinstance(value.get(key), str)), None)
    args_key = next((key for key in ARGUMENTS if key in value), None)
    if name_key is None or args_key is None:
        return None
    if not BESIDE.issuperset(value.keys() - {name_key, args_key}):
        return None

    match value[args_key]:
        case {"properties": _}:  # the parameters of a definition
            return None
        case {"type": "object"} as args if SCHEMA_WORDS.issuperset(args):
            return None
        case None | str() | dict():
            return [value[name_key].removeprefix("functions.").removeprefix("default_api.")]
        case _:
            return None


# For an arriving text: what may precede a call, and how a call may start.
_OPENED = re.compile(
    r"(?:[\s\ufeff;,}\]]|(?:```|~~~)[a-z_]{0,20}[ \t]*\r?\n|```(?:json)?(?=\s*[\[{<]))*",
    re.IGNORECASE,
)
_OPENS = re.compile(
    r"(?:`{1,3}|~{1,3})[a-z_]{0,20}[ \t]*\r?\Z"  # half a fence
    r"|\{|\[\s*(?:[\[{\"'<]|\Z)|\[/?(?:TOOL_CALLS?|\Z)|\[/?[TOL_CA]{1,9}\Z"
    r"|</?(?:[|\uff5c]|\Z|s(?:>|\Z)|[a-z]{1,20}:)"
    r"|(?:Thought|Action|Observation|call):|(?:print|python)\(|functools|<\|",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?(\w+)(\Z)?")
_WORD = re.compile(
    r"""\[?\s*["']?((?:functions\.|default_api\.)?[\w./-]{0,128})["']?""", re.IGNORECASE
)
_AFTER_NAME = re.compile(r"(?:\.call)?(?:[(<\[]|:?[0-9]*\s*(?:\Z|[{<]))", re.IGNORECASE)
_TO = re.compile(r"(?:assistant\S*)?\w{1,20}(?:\s+(?:to=|to?\Z|\Z)|\Z)|to=", re.IGNORECASE)
_HALVES = (
    "functools",
    "functions.",
    "default_api.",
    "print(",
    "python(",
    "thought:",
    "action:",
    "observation:",
    "call:",
)
_TAGS = ("think", "tool", "function", "invoke", "toolcall")


def may_become_call(text: str, tools: Collection[str]) -> bool:
    """Return whether an arriving text may become a call.

    Only its first words are examined.
    """
    opened = _OPENED.match(text)
    rest = text[opened.end() :] if opened else text
    if not rest or _OPENS.match(rest):
        return True

    if tag := _TAG.match(rest):
        return tag[2] is not None or tag[1].lower().startswith(_TAGS)

    if _TO.match(rest) or any(half.startswith(rest.lower()) for half in _HALVES):
        return True

    found = _WORD.match(rest)
    if found is None:
        return False

    word = found[1].removeprefix("functions.").removeprefix("default_api.")
    after = rest[found.end() :]
    if not after:
        return any(name.startswith(word) or word.startswith(name) for name in tools)

    return word.removesuffix(".call") in tools and _AFTER_NAME.match(after) is not None
