"""How chat templates write a call: one row for each, with its source. Only data.

:mod:`~strictreply.contract._call_search` reads these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Template:
    """The format of calls of one family of models.

    In ``opens`` and ``then`` a space is any whitespace or none, ``{name}`` is the name of a
    declared tool, quoted or not, ``{json}`` is JSON with the name in a member of a call,
    ``{keyed}`` is JSON with the name as a key, ``{args}`` is a JSON object at the end of its
    message.
    """

    name: str
    """The models that write calls in this format."""
    source: str
    """Where the format is defined."""
    opens: tuple[str, ...]
    """Beginnings of a call."""
    then: tuple[str, ...]
    """What follows the beginning."""
    around: tuple[str, ...] = ()
    """Beginnings of a section of calls."""
    closes: tuple[str, ...] = ()
    """Ends of a call or of a section."""
    opens_first: tuple[str, ...] = ()
    """Beginnings of a call that count only after a thought, or at the start of the text."""


def _deepseek(*names: str) -> tuple[str, ...]:
    """Return DeepSeek's tokens, with full-width bars and spaces, and with ASCII characters.

    Servers and models mix the two (vllm-project/vllm#23454).
    """
    spelled = [name.replace("_", blank) for name in names for blank in ("▁", "_")]
    return tuple(f"<{bar}{name}{bar}>" for name in spelled for bar in ("\uff5c", "|"))


def _tagged(prefixes: tuple[str, ...], *names: str) -> tuple[str, ...]:
    """Return DeepSeek's tags with these names; V4.1 puts a space before the name."""
    return tuple(
        f"{one}{blank}{name}>" for one in prefixes for name in names for blank in ("", " ")
    )


def _closing(prefixes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"</{one[1:]}" for one in prefixes)


def _named(form: str) -> tuple[str, ...]:
    """Return the forms of a tag with the name as its attribute, ending there or with more."""
    return f"{form} >", f"{form} />", form


_SEPARATORS = _deepseek("tool_sep")
_DSML = ("<\uff5cDSML\uff5c", "<|DSML|")
_GCML = ("<\uff5cGCML\uff5c", "<|GCML|")
_SPACES = ("", "antml:", "minimax:")  # of names in XML

# Where a source is a path, it is one of vllm-project/vllm (vllm/tool_parsers), sgl-project/sglang
# (python/sglang/srt/function_call) or ggml-org/llama.cpp (common, models/templates).
TEMPLATES = (
    Template(
        "Hermes, Qwen 2.5 and 3, Granite 4, EXAONE",
        "vllm hermes_tool_parser.py",
        ("<tool_call>", "<function_call>", "<tool_use>", "<tool-use>", "<tools>"),
        (" {json}",),
        closes=("</tool_call>", "</function_call>", "</tool_use>", "</tool-use>", "</tools>"),
    ),
    Template(
        "Jamba, Hunyuan A13B, Apriel, MiniMax M1",
        "vllm jamba_tool_parser.py, hunyuan_a13b_tool_parser.py; unsloth-Apriel-1.5.jinja",
        ("<tool_calls>",),
        (" {json}",),
        closes=("</tool_calls>",),
    ),
    Template(
        "Qwen3-Coder, Qwen 3.5, Llama 3.1, Seed-OSS, MiMo, Step 3.5",
        "vllm qwen3coder_tool_parser.py, seed_oss_tool_parser.py",
        ("<function=",),
        ("{name} >", "{name} {"),
        around=("<tool_call>", "<seed:tool_call>"),
        closes=("</function>", "</tool_call>", "</seed:tool_call>"),
    ),
    Template(
        "MiniCPM 5",
        "sglang minicpm5_detector.py",
        ("<function ",),
        _named(" name={name}"),
        closes=("</function>",),
    ),
    Template(
        "GLM 4.5 to 5, Ling 3, Laguna, Spark",
        "vllm glm4_moe_tool_parser.py; sglang ling3_detector.py, poolside_v1_detector.py",
        ("<tool_call>",),
        (" {name} <arg_key>", " {name} </tool_call>"),
        closes=("</tool_call>",),
    ),
    Template(
        "Hunyuan 3 and 4",
        "sglang hunyuan_detector.py; vllm hy_v4_tool_parser.py",
        ("<tool_call:opensource>", "<tool_call>"),
        (" {name} <tool_sep", " {name} <arg_key:", " {name} </tool_call:"),
        around=("<tool_calls>", "<tool_calls:opensource>"),
        closes=("</tool_call>", "</tool_calls>", "</tool_call:opensource>"),
    ),
    Template(
        "K2 Horizon",
        "llama.cpp parsers/k2-horizon.cpp",
        ("<ifm|tool_call>",),
        (" {json}", " {name} <ifm|arg_key>", " {name} </ifm|tool_call>"),
        around=("<ifm|tool_calls>",),
        closes=("</ifm|tool_call>", "</ifm|tool_calls>"),
    ),
    Template(
        "DeepSeek V3, R1",
        "vllm deepseekv3_tool_parser.py",
        _deepseek("tool_call_begin", "tool_calls_begin"),
        tuple(f" function{sep}{{name}} {behind}" for sep in _SEPARATORS for behind in ("```", "{")),
        around=_deepseek("tool_calls_begin"),
        closes=_deepseek("tool_call_end", "tool_calls_end"),
    ),
    Template(
        "DeepSeek V3.1",
        "vllm deepseekv31_tool_parser.py",
        _deepseek("tool_call_begin", "tool_calls_begin"),
        tuple(f" {{name}} {sep}" for sep in _SEPARATORS),
        around=_deepseek("tool_calls_begin"),
        closes=_deepseek("tool_call_end", "tool_calls_end"),
    ),
    Template(
        "DeepSeek V3.2 to V4.1",
        "vllm deepseekv32_tool_parser.py, deepseekv41_engine_tool_parser.py",
        _DSML,
        _named(" invoke name={name}"),
        around=_tagged(_DSML, "function_calls", "tool_calls", "calls"),
        closes=_tagged(_closing(_DSML), "invoke", "function_calls", "tool_calls", "calls"),
    ),
    Template(
        "GigaChat 3.5",
        "vllm gigachat35_tool_parser.py",
        _GCML,
        _named(" invoke name={name}"),
        around=_tagged(_GCML, "tool_calls"),
        closes=_tagged(_closing(_GCML), "invoke", "tool_calls"),
    ),
    Template(
        "GigaChat 3",
        "vllm gigachat3_tool_parser.py",
        ("<|function_call|>", "function call<|role_sep|>"),
        (" {json}",),
        around=("<|message_sep|>",),
    ),
    Template(
        "Claude, MiniMax M2, dots",
        "vllm minimax_m2_tool_parser.py; sglang dots_detector.py",
        tuple(f"<{space}invoke " for space in _SPACES),
        (" name={name} > <", " name={name} />", " name = {name} > <"),
        around=(
            *(f"<{space}function_calls>" for space in _SPACES),
            "<minimax:tool_call>",
            "<dots_function_call>",
        ),
        closes=(
            *(f"</{space}invoke>" for space in _SPACES),
            *(f"</{space}function_calls>" for space in _SPACES),
            "</minimax:tool_call>",
            "</dots_function_call>",
        ),
    ),
    Template(
        "MiniMax M3",
        "sglang minimax_m3.py",
        ("]<]minimax[>[",),
        _named(" <invoke name={name}"),
        around=("]<]minimax[>[<tool_call>",),
        closes=("</invoke>", "</tool_call>"),
    ),
    Template(
        "Step 3",
        "sglang step3_detector.py",
        ("<steptml:invoke ",),
        _named(" name={name}"),
        around=_deepseek("tool_calls_begin", "tool_call_begin"),
        closes=("</steptml:invoke>", *_deepseek("tool_call_end", "tool_calls_end")),
    ),
    Template(
        "Muse Glimmer",
        "sglang muse_glimmer_detector.py",
        ("<atem:invoke ",),
        _named(" name={name}"),
        around=("<atem:function_calls>",),
        closes=("</atem:invoke>", "</atem:function_calls>"),
    ),
    Template(
        "Kimi K2",
        "vllm kimi_k2_tool_parser.py",
        ("<|tool_call_begin|>",),
        (" {name} <|tool_call_argument_begin|>", " {name} {"),
        around=("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
        closes=("<|tool_call_end|>", "<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    ),
    Template(
        "Kimi K3",
        "vllm kimi_k3_tool_parser.py",
        ("<|open|>call",),
        (" tool={name}",),
        around=("<|close|>response<|sep|>", "<|open|>tools<|sep|>"),
        closes=("<|close|>call<|sep|>", "<|close|>tools<|sep|>", "<|close|>message<|sep|>"),
    ),
    Template(
        "Mistral, to v7",
        "vllm mistral_tool_parser.py",
        ("[TOOL_CALLS]", "[TOOL_CALL]"),
        (" {json}",),
        closes=("[/TOOL_CALLS]", "[/TOOL_CALL]"),
    ),
    Template(
        "Mistral, from v11",
        "vllm mistral_tool_parser.py; llama.cpp parsers/ministral3.cpp",
        ("[TOOL_CALLS]",),
        (" {name} [ARGS]", " {name} [CALL_ID]", " {name} {"),
        closes=("[/TOOL_CALLS]",),
    ),
    Template(
        "Gemma 4",
        "vllm gemma4_tool_parser.py",
        ("<|tool_call>",),
        (" call:{name} {",),
        closes=("<tool_call|>",),
    ),
    Template(
        "FunctionGemma",
        "vllm functiongemma_tool_parser.py",
        ("<start_function_call>",),
        (" call:{name} {",),
        closes=("<end_function_call>",),
    ),
    Template(
        "Llama 3",
        "vllm llama_tool_parser.py",
        ("<|python_tag|>",),
        (" {json}", " {name}.call("),
        closes=("<|eom_id|>", "<|eot_id|>"),
    ),
    Template(
        "Llama 4",
        "vllm llama4_pythonic_tool_parser.py",
        ("<|python_start|>",),
        (" {json}", " [ {name}("),
        closes=("<|python_end|>",),
    ),
    Template(
        "LFM 2",
        "vllm lfm2_tool_parser.py",
        ("<|tool_call_start|>",),
        (" {json}", " [ {name}("),
        closes=("<|tool_call_end|>",),
    ),
    Template(
        "MiniCPM 4",
        "openbmb/MiniCPM4-8B, its chat template",
        ("<|tool_call_start|>",),
        (" ```python {name}(", " ``` {name}("),
        closes=("<|tool_call_end|>",),
    ),
    Template(
        "gpt-oss",
        "openai/harmony docs/format.md; vllm openai_tool_parser.py",
        (
            "<|start|>assistant",
            "<|start|>assistant<|channel|>commentary",
            "<|channel|>commentary",
            "<|channel|>analysis",
        ),
        (
            " to={name}",
            " {name} <|message|>",
            " {name} <|constrain|>",
            " <|message|> {json}",
            " <|constrain|>json <|message|> {json}",
            " json <|message|> {json}",
        ),
        closes=("<|call|>",),
    ),
    Template(
        "gpt-oss, its recipient lost",
        "NVIDIA/TensorRT-LLM#9256",
        ("<|start|>assistant<|channel|>commentary",),
        (
            " <|message|> {args}",
            " <|constrain|>json <|message|> {args}",
            " json <|message|> {args}",
        ),
        closes=("<|call|>", "<|end|>"),
        opens_first=("<|channel|>commentary",),
    ),
    Template(
        "Phi-4, Granite 3",
        "vllm granite_tool_parser.py; microsoft/Phi-4-mini-instruct, its chat template",
        ("<|tool_call|>",),
        (" {json}",),
        closes=("<|/tool_call|>",),
    ),
    Template(
        "Phi-4-mini, Firefunction",
        "vllm phi4mini_tool_parser.py",
        ("functools",),
        ("{json}",),
    ),
    Template(
        "InternLM 2, Intern-S1",
        "vllm internlm2_tool_parser.py; sglang internlm_detector.py",
        ("<|action_start|>",),
        (" <|plugin|> {json}", " {json}"),
        closes=("<|action_end|>",),
    ),
    Template(
        "Command R7B, Command A",
        "sglang cohere_command4_detector.py",
        ("<|START_ACTION|>",),
        (" {json}",),
        closes=("<|END_ACTION|>",),
    ),
    Template(
        "Nemotron",
        "vllm nemotron_json_tool_parser.py; llama.cpp NVIDIA-Nemotron-Nano-v2.jinja",
        ("<TOOLCALL>",),
        (" {json}",),
        closes=("</TOOLCALL>",),
    ),
    Template(
        "Olmo 3",
        "vllm olmo3_tool_parser.py",
        ("<function_calls>",),
        (" {name}(",),
        closes=("</function_calls>",),
    ),
    Template(
        "Apertus",
        "sglang apertus2509_detector.py",
        ("<|tools_prefix|>",),
        (" {keyed}",),
        closes=("<|tools_suffix|>",),
    ),
    Template(
        "LongCat",
        "vllm longcat_tool_parser.py",
        ("<longcat_tool_call>",),
        (" {json}", " {name} <longcat_arg_key>"),
        closes=("</longcat_tool_call>",),
    ),
    Template(
        "Solar Open",
        "vllm solar_open2_tool_parser.py",
        ("<|tool_call:start|>",),
        (" {name} <|tool_arg:start|>", " {name} <|tool_call:end|>"),
        closes=("<|tool_call:end|>",),
    ),
    Template(
        "PLaMo 3",
        "vllm plamo3_tool_parser.py",
        ("<|plamo:begin_tool_name:plamo|>",),
        (" {name} <|plamo:end_tool_name:plamo|>",),
        around=("<|plamo:begin_tool_requests:plamo|>", "<|plamo:begin_tool_request:plamo|>"),
        closes=("<|plamo:end_tool_request:plamo|>", "<|plamo:end_tool_requests:plamo|>"),
    ),
    Template(
        "Inkling",
        "sglang inkling_detector.py",
        ("<|content_invoke_tool_json|>",),
        (" {json}",),
        around=("<|message_model|>",),
        closes=("<|end_message|>",),
    ),
    Template(
        "Code World Model",
        "vllm cwm_tool_parser.py",
        ("<tool: function>",),
        (" {name} {", " {name} </tool>"),
        closes=("</tool>",),
    ),
)


class Thought(NamedTuple):
    """The beginning and the end of a thought.

    ``is_begun`` says that the template may have written the beginning, so only the end is in the
    text.
    """

    begins: str
    ends: str
    is_begun: bool = True


THOUGHTS = (
    Thought("<think>", "</think>"),
    Thought("<thinking>", "</thinking>"),
    Thought("[THINK]", "[/THINK]"),  # Magistral
    Thought("<seed:think>", "</seed:think>"),
    Thought("<ifm|think>", "</ifm|think>"),  # K2 Horizon
    Thought("<longcat_think>", "</longcat_think>"),
    Thought("<|channel>thought", "<channel|>"),  # Gemma 4
    Thought("<|channel|>analysis<|message|>", "<|end|>", is_begun=False),  # gpt-oss
    Thought("<|open|>think<|sep|>", "<|close|>think<|sep|>"),  # Kimi K3
    Thought("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    Thought("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi-VL
)
