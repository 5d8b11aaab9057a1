"""Calls as each template of ``TEMPLATES`` writes them, for any tool and any arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Call: TypeAlias = tuple[str, dict[str, Any]]
Writer: TypeAlias = Callable[[Sequence[Call]], str]

BAR = "\uff5c"  # DeepSeek's tokens have full-width bars


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _python(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _each(form: str, *, around: str = "{}", between: str = "\n") -> Writer:
    """Write calls by a form with ``$name`` and ``$json``, its arguments."""

    def written(calls: Sequence[Call]) -> str:
        texts = [
            form.replace("$name", name).replace("$json", json.dumps(arguments))
            for name, arguments in calls
        ]
        return around.format(between.join(texts))

    return written


def _list(around: str, name_key: str = "name", key: str = "arguments") -> Writer:
    """Write calls as a list in JSON."""

    def written(calls: Sequence[Call]) -> str:
        return around.format(json.dumps([{name_key: name, key: args} for name, args in calls]))

    return written


def _tags(opens: str, closes: str, one: str, *, around: str = "{}") -> Writer:
    """Write calls in tags: each argument by a form with ``$key`` and ``$value``."""

    def written(calls: Sequence[Call]) -> str:
        texts: list[str] = []
        for name, arguments in calls:
            inner = [
                one.replace("$key", key).replace("$value", _text(value))
                for key, value in arguments.items()
            ]
            texts.append("\n".join([opens.replace("$name", name), *inner, closes]))

        return around.format("\n".join(texts))

    return written


def _pythonic(around: str) -> Writer:
    return lambda calls: around.format(", ".join(_python(*call) for call in calls))


def _keyed(calls: Sequence[Call]) -> str:
    listed = json.dumps([{name: arguments} for name, arguments in calls])
    return f"<|tools_prefix|>{listed}<|tools_suffix|>"


def _gemma(calls: Sequence[Call]) -> str:
    texts: list[str] = []
    for name, arguments in calls:
        inner = ",".join(f'{key}:<|"|>{_text(value)}<|"|>' for key, value in arguments.items())
        texts.append(f"<|tool_call>call:{name}{{{inner}}}<tool_call|>")

    return "".join(texts)


def _kimi(calls: Sequence[Call]) -> str:
    texts = [
        f"<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>"
        f"{json.dumps(arguments)}<|tool_call_end|>"
        for index, (name, arguments) in enumerate(calls)
    ]
    return f"<|tool_calls_section_begin|>{''.join(texts)}<|tool_calls_section_end|>"


def _kimi3(calls: Sequence[Call]) -> str:
    texts: list[str] = []
    for index, (name, arguments) in enumerate(calls, 1):
        inner = "".join(
            f'<|open|>argument key="{key}"<|sep|>{_text(value)}<|close|>argument<|sep|>'
            for key, value in arguments.items()
        )
        texts.append(
            f'<|open|>call tool="{name}" index="{index}"<|sep|>{inner}<|close|>call<|sep|>'
        )

    return f"<|open|>tools<|sep|>{''.join(texts)}<|close|>tools<|sep|><|close|>message<|sep|>"


_XML_ARGUMENT = '<parameter name="$key">$value</parameter>'
_ARG_PAIR = "<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>"
_NAMED = '{"name": "$name", "arguments": $json}'

WRITERS: dict[str, Writer] = {
    "Hermes, Qwen 2.5 and 3, Granite 4, EXAONE": _each(f"<tool_call>\n{_NAMED}\n</tool_call>"),
    "Jamba, Hunyuan A13B, Apriel, MiniMax M1": _list("<tool_calls>{}</tool_calls>"),
    "Qwen3-Coder, Qwen 3.5, Llama 3.1, Seed-OSS, MiMo, Step 3.5": _tags(
        "<tool_call>\n<function=$name>",
        "</function>\n</tool_call>",
        "<parameter=$key>\n$value\n</parameter>",
    ),
    "MiniCPM 5": _tags(
        '<function name="$name">', "</function>", '<param name="$key">$value</param>'
    ),
    "GLM 4.5 to 5, Ling 3, Laguna, Spark": _tags("<tool_call>$name", "</tool_call>", _ARG_PAIR),
    "Hunyuan 3 and 4": _tags(
        "<tool_call>$name<tool_sep>",
        "</tool_call>",
        _ARG_PAIR,
        around="<tool_calls>\n{}\n</tool_calls>",
    ),
    "K2 Horizon": _tags(
        "<ifm|tool_call>$name",
        "</ifm|tool_call>",
        "<ifm|arg_key>$key</ifm|arg_key><ifm|arg_value>$value</ifm|arg_value>",
        around="<ifm|tool_calls>{}</ifm|tool_calls>",
    ),
    "DeepSeek V3, R1": _each(
        f"<{BAR}tool▁call▁begin{BAR}>function<{BAR}tool▁sep{BAR}>$name\n```json\n$json\n```"
        f"<{BAR}tool▁call▁end{BAR}>",
        around=f"<{BAR}tool▁calls▁begin{BAR}>{{}}<{BAR}tool▁calls▁end{BAR}>",
    ),
    "DeepSeek V3.1": _each(
        f"<{BAR}tool▁call▁begin{BAR}>$name<{BAR}tool▁sep{BAR}>$json<{BAR}tool▁call▁end{BAR}>",
        around=f"<{BAR}tool▁calls▁begin{BAR}>{{}}<{BAR}tool▁calls▁end{BAR}>",
        between="",
    ),
    "DeepSeek V3.2 to V4.1": _tags(
        f'<{BAR}DSML{BAR} invoke name="$name">',
        f"</{BAR}DSML{BAR} invoke>",
        f'<{BAR}DSML{BAR} parameter name="$key" string="true">$value</{BAR}DSML{BAR} parameter>',
        around=f"<{BAR}DSML{BAR} calls>\n{{}}\n</{BAR}DSML{BAR} calls>",
    ),
    "GigaChat 3.5": _tags(
        f'<{BAR}GCML{BAR}invoke name="$name">',
        f"</{BAR}GCML{BAR}invoke>",
        f'<{BAR}GCML{BAR}parameter name="$key">$value</{BAR}GCML{BAR}parameter>',
        around=f"<{BAR}GCML{BAR}tool_calls>\n{{}}\n</{BAR}GCML{BAR}tool_calls>",
    ),
    "GigaChat 3": _each(f"<|function_call|>{_NAMED}", between=""),
    "Claude, MiniMax M2, dots": _tags(
        '<invoke name="$name">',
        "</invoke>",
        _XML_ARGUMENT,
        around="<minimax:tool_call>\n{}\n</minimax:tool_call>",
    ),
    "MiniMax M3": _tags(
        ']<]minimax[>[<invoke name="$name">',
        "]<]minimax[>[</invoke>",
        "]<]minimax[>[<$key>$value]<]minimax[>[</$key>",
        around="]<]minimax[>[<tool_call>\n{}\n]<]minimax[>[</tool_call>",
    ),
    "Step 3": _tags(
        f'<{BAR}tool_call_begin{BAR}>function<{BAR}tool_sep{BAR}><steptml:invoke name="$name">',
        f"</steptml:invoke><{BAR}tool_call_end{BAR}>",
        '<steptml:parameter name="$key">$value</steptml:parameter>',
        around=f"<{BAR}tool_calls_begin{BAR}>\n{{}}\n<{BAR}tool_calls_end{BAR}>",
    ),
    "Muse Glimmer": _tags(
        '<atem:invoke name="$name">',
        "</atem:invoke>",
        '<atem:parameter name="$key">$value</atem:parameter>',
        around="<atem:function_calls>\n{}\n</atem:function_calls>",
    ),
    "Kimi K2": _kimi,
    "Kimi K3": _kimi3,
    "Mistral, to v7": _list("[TOOL_CALLS] {}"),
    "Mistral, from v11": _each("[TOOL_CALLS]$name[ARGS]$json", between=""),
    "Gemma 4": _gemma,
    "FunctionGemma": lambda calls: (
        _gemma(calls)
        .replace("<|tool_call>", "<start_function_call>")
        .replace("<tool_call|>", "<end_function_call>")
        .replace('<|"|>', "<escape>")
    ),
    "Llama 3": _each('<|python_tag|>{"name": "$name", "parameters": $json}', between="; "),
    "Llama 4": _pythonic("<|python_start|>[{}]<|python_end|>"),
    "LFM 2": _pythonic("<|tool_call_start|>[{}]<|tool_call_end|>"),
    "MiniCPM 4": lambda calls: (
        "<|tool_call_start|>\n```python\n"
        + "\n".join(_python(*call) for call in calls)
        + "\n```\n<|tool_call_end|>"
    ),
    "gpt-oss": _each(
        "<|start|>assistant<|channel|>commentary to=functions.$name <|constrain|>json<|message|>"
        "$json<|call|>",
        between="",
    ),
    "gpt-oss, its recipient lost": _each(
        "<|start|>assistant<|channel|>commentary<|message|>$json<|end|>", between=""
    ),
    "Phi-4, Granite 3": _list("<|tool_call|>{}<|/tool_call|>"),
    "Phi-4-mini, Firefunction": _list("functools{}"),
    "InternLM 2, Intern-S1": _each(
        '<|action_start|><|plugin|>\n{"name": "$name", "parameters": $json}<|action_end|>'
    ),
    "Command R7B, Command A": _list("<|START_ACTION|>{}<|END_ACTION|>", "tool_name", "parameters"),
    "Nemotron": _list("<TOOLCALL>{}</TOOLCALL>"),
    "Olmo 3": lambda calls: (
        "<function_calls>\n" + "\n".join(_python(*call) for call in calls) + "\n</function_calls>"
    ),
    "Apertus": _keyed,
    "LongCat": _each(f"<longcat_tool_call>\n{_NAMED}\n</longcat_tool_call>"),
    "Solar Open": _tags(
        "<|tool_call:start|>$name",
        "<|tool_call:end|>",
        "<|tool_arg:start|>$key<|tool_arg:value|>$value<|tool_arg:end|>",
    ),
    "PLaMo 3": _each(
        "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>$name"
        "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>$json"
        "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
        around="<|plamo:begin_tool_requests:plamo|>{}<|plamo:end_tool_requests:plamo|>",
        between="",
    ),
    "Inkling": _each(
        '<|message_model|>$name<|content_invoke_tool_json|>{"name":"$name","args":$json}'
        "<|end_message|>",
        between="",
    ),
    "Code World Model": _each("<tool: function>\n$name $json\n</tool>"),
}
"""One for each row, by its name."""
