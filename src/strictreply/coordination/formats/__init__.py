"""How agents write their actions: the formats, their registry, their processors, and the prompts that teach them."""

from __future__ import annotations

from strictreply.coordination._processors import (
    ErrorMessageProcessor,
    ProcessorChain,
    ResponseProcessor,
    StructuredJSONProcessor,
    TextResponseProcessor,
    ToolCallProcessor,
)
from strictreply.coordination.formats._action_formats import (
    ActionFormat,
    AgentContext,
    BaseResponseFormat,
    CoordinationContext,
    JSONResponseFormat,
    SystemPromptBuilder,
    get_format,
    is_format_registered,
    list_formats,
    register_format,
    set_default_format,
)
from strictreply.coordination.formats._xml_format import XMLProcessor, XMLResponseFormat

__all__ = [
    "ActionFormat",
    "AgentContext",
    "BaseResponseFormat",
    "CoordinationContext",
    "ErrorMessageProcessor",
    "JSONResponseFormat",
    "ProcessorChain",
    "ResponseProcessor",
    "StructuredJSONProcessor",
    "SystemPromptBuilder",
    "TextResponseProcessor",
    "ToolCallProcessor",
    "XMLProcessor",
    "XMLResponseFormat",
    "get_format",
    "is_format_registered",
    "list_formats",
    "register_format",
    "set_default_format",
]
