"""LangChain, streamed.

The chunks of the reply are added up, and the sum goes through the parser of pydantic tools.
"""

from __future__ import annotations

from typing import Any

from langchain_core.output_parsers import PydanticToolsParser
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from probes.job import MODEL, QUESTION, TIMEOUT, Search


def app(base_url: str) -> object:
    """Read one stream to its end and parse what came; None when the parser found no call."""
    model = ChatOpenAI(model=MODEL, base_url=base_url, api_key=SecretStr("none"), timeout=TIMEOUT)
    gathered: Any = None
    for chunk in model.bind_tools([Search]).stream(QUESTION):
        gathered = chunk if gathered is None else gathered + chunk

    parser = PydanticToolsParser(tools=[Search], first_tool_only=True)
    search = gathered and parser.invoke(gathered)
    return search and {"tool": "Search", "args": search.model_dump()}
