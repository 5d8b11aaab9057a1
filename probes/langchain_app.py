"""LangChain: a chat model with the tool bound to it, piped into the parser of pydantic tools."""

from __future__ import annotations

from langchain_core.output_parsers import PydanticToolsParser
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from probes.job import MODEL, QUESTION, TIMEOUT, Search


def app(base_url: str) -> object:
    """Run the chain; None when the parser found no call."""
    model = ChatOpenAI(model=MODEL, base_url=base_url, api_key=SecretStr("none"), timeout=TIMEOUT)
    chain = model.bind_tools([Search]) | PydanticToolsParser(tools=[Search], first_tool_only=True)
    search = chain.invoke(QUESTION)
    return search and {"tool": "Search", "args": search.model_dump()}
