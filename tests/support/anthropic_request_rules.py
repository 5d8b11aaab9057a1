"""Rules of the Messages API on what stands beside the conversation, in its words where known.

``source`` says where the words are from: ``recording`` (ids of ../shared/traffic), ``docs`` (the
provider's guide of that name), or a public thread that quotes the answer. ``own words`` says that
only the refusal is known, not its text. Where a recorded 2xx request breaks what threads say, the
recording wins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from support.anthropic_judging import Asked, Rules
from support.anthropic_turns import cached, objects_in

PARAMETERS = frozenset(
    [
        "anthropic_beta",
        "anthropic_version",
        "billing_policy",
        "cache_control",
        "compaction",
        "container",
        "context_management",
        "diagnostics",
        "fallback_credit_token",
        "fallbacks",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "thread",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
        "user_profile_id",
        "workspace_id",
    ]
)
TOOL_MEMBERS = frozenset(
    [
        "allowed_callers",
        "cache_control",
        "defer_loading",
        "description",
        "eager_input_streaming",
        "input_examples",
        "input_schema",
        "name",
        "strict",
        "type",
    ]
)
NAME = "^[a-zA-Z0-9_-]{1,128}$"

REQUEST_RULES = Rules()


@REQUEST_RULES.add("parameters", "Aider-AI/aider#4404")
def _parameters(asked: Asked) -> Iterator[str]:
    yield from (
        f"{name}: Extra inputs are not permitted" for name in asked.body.keys() - PARAMETERS
    )
    if not asked.body.get("model") and "anthropic_version" not in asked.body:
        yield "model: Field required"


@REQUEST_RULES.add("max_tokens", "docs: messages create")
def _max_tokens(asked: Asked) -> Iterator[str]:
    most = asked.body.get("max_tokens")
    if most is None:
        yield "max_tokens: Field required"
    elif not isinstance(most, int) or isinstance(most, bool):
        yield "max_tokens: Input should be a valid integer"
    elif most < 1:
        yield "max_tokens: Input should be greater than or equal to 1"


@REQUEST_RULES.add("budget", "themaximalist/llm.js#30, docs: extended thinking")
def _budget(asked: Asked) -> Iterator[str]:
    if asked.thinking != "enabled":
        return

    budget = asked.body["thinking"].get("budget_tokens")
    if not isinstance(budget, int):
        yield "thinking.enabled.budget_tokens: Field required"
    elif budget < 1024:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    elif budget >= asked.body.get("max_tokens", 0):
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."


@REQUEST_RULES.add("temperature", "MartialBE/one-hub#529, MayDay-wpf/snow-app#42")
def _temperature(asked: Asked) -> Iterator[str]:
    if asked.thinking in {"enabled", "adaptive"} and asked.body.get("temperature") not in {None, 1}:
        yield "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."


@REQUEST_RULES.add("tools.names", "home-assistant/core#147760")
def _tool_names(asked: Asked) -> Iterator[str]:
    for path, tool in asked.tools:
        if not re.fullmatch(NAME, str(tool.get("name"))):
            yield f"{path}.name: String should match pattern '{NAME}'"


@REQUEST_RULES.add("tools.unique", "danny-avila/LibreChat#13162")
def _tools_unique(asked: Asked) -> Iterator[str]:
    names = Counter(tool["name"] for tool in asked.body.get("tools") or () if "name" in tool)
    if any(count > 1 for count in names.values()):
        yield "tools: Tool names must be unique."


@REQUEST_RULES.add("tools.schema", "lidge-jun/opencodex#75, Hmbown/Codewhale#4329")
def _tool_schemas(asked: Asked) -> Iterator[str]:
    for path, tool in asked.tools:
        schema = tool.get("input_schema")
        at = f"{path}.input_schema"
        if not isinstance(schema, dict):
            yield f"{at}: Field required"
        elif "type" not in schema:
            yield f"{at}.type: Field required"
        elif schema["type"] != "object":
            yield f"{at}.type: Input should be 'object'"
        elif schema.keys() & {"oneOf", "allOf", "anyOf"}:
            yield f"{at}: input_schema does not support oneOf, allOf, or anyOf at the top level"


@REQUEST_RULES.add("tools.members", "as the members of blocks: anthropics/claude-code#4378")
def _tool_members(asked: Asked) -> Iterator[str]:
    for path, tool in asked.tools:
        yield from (
            f"{path}.{name}: Extra inputs are not permitted" for name in tool.keys() - TOOL_MEMBERS
        )


@REQUEST_RULES.add("tools.strict", "ax-llm/ax#458")
def _strict_tools(asked: Asked) -> Iterator[str]:
    for path, tool in asked.tools:
        if tool.get("strict"):
            yield from _open_objects(path, tool.get("input_schema"))


@REQUEST_RULES.add("format", "ax-llm/ax#458")
def _format(asked: Asked) -> Iterator[str]:
    config = asked.body.get("output_config")
    given = {
        "output_config.format": config.get("format") if isinstance(config, dict) else None,
        "output_format": asked.body.get("output_format"),
    }
    for path, format_ in given.items():
        if isinstance(format_, dict):
            yield from _open_objects(f"{path}.schema", format_.get("schema"))


def _open_objects(path: str, schema: Any) -> Iterator[str]:
    if any(one.get("additionalProperties") is not False for one in objects_in(schema)):
        yield f"{path}: For 'object' type, 'additionalProperties' must be explicitly set to false"


@REQUEST_RULES.add("choice.tools", "docs: messages create; own words")
def _choice_of_tools(asked: Asked) -> Iterator[str]:
    if asked.choice and not asked.body.get("tools"):
        yield "tool_choice: may only be specified while providing tools"


@REQUEST_RULES.add("choice.name", "docs: messages create; own words")
def _choice_name(asked: Asked) -> Iterator[str]:
    names = [tool.get("name") for tool in asked.body.get("tools") or ()]
    if asked.choice.get("type") == "tool" and asked.choice.get("name") not in names:
        yield f"Tool '{asked.choice.get('name')}' not found in provided tools"


@REQUEST_RULES.add("choice.thinking", "mastra-ai/mastra#7507; adaptive is accepted: ant-f489d9b4c2")
def _choice_and_thinking(asked: Asked) -> Iterator[str]:
    if asked.is_forced and asked.thinking == "enabled":
        yield "Thinking may not be enabled when tool_choice forces tool use."


@REQUEST_RULES.add("choice.model", "docs: Fable 5, tool choice")
def _choice_and_model(asked: Asked) -> Iterator[str]:
    if asked.is_forced and not asked.model.forced_choice:
        yield 'tool_choice: type "tool" and "any" are not supported for this model.'


@REQUEST_RULES.add("cache_control", "Wei-Shaw/sub2api#176; null is none: ant-d3dc843d26")
def _breakpoints(asked: Asked) -> Iterator[str]:
    found = cached({name: asked.body.get(name) for name in ("system", "tools", "messages")})
    found += asked.body.get("cache_control") is not None
    if found > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {found}."


@REQUEST_RULES.add(
    "roles", "neovateai/neovate-code#745, LeenHawk/gproxy#209, langchain4j/langchain4j#5603"
)
def _roles(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        role = message.get("role")
        if role not in {"user", "assistant", "system"}:
            yield f'messages: Unexpected role "{role}".'
        elif role == "system" and not asked.model.system_turns:
            yield (
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
                'parameter, not "system" as an input message role.'
            )
        elif role == "system" and at == 0:
            yield f"messages.{at}: use the top-level 'system' parameter for the initial prompt"
        elif role == "system" and asked.messages[at - 1].get("role") == "assistant":
            yield f"messages.{at}: a system message must follow a user message"
