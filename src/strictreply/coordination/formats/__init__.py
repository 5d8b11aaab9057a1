"""How agents write their actions: the formats, their registry, their processors, and the prompts that teach them."""

from __future__ import annotations

from strictreply.coordination._replies.processors import (
    ErrorMessageProcessor,
    ProcessorChain,
    ResponseProcessor,
    StructuredJSONProcessor,
    TextResponseProcessor,
    ToolCallProcessor,
)
from strictreply.coordination.formats._contexts import AgentContext, CoordinationContext
from strictreply.coordination.formats._interface import ActionFormat, BaseResponseFormat
from strictreply.coordination.formats._json_format import JSONResponseFormat
from strictreply.coordination.formats._prompts import SystemPromptBuilder
from strictreply.coordination.formats._registry import (
    FormatRegistry,
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
    "FormatRegistry",
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
