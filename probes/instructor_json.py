"""instructor in its JSON Schema mode: the schema goes out as response_format, the content is JSON."""

from __future__ import annotations

import instructor
from openai import OpenAI

from probes.job import MODEL, QUESTION, TIMEOUT, Search


def app(base_url: str) -> object:
    """Ask for a search; give the validated one."""
    client = instructor.from_openai(
        OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT), mode=instructor.Mode.JSON_SCHEMA
    )
    search = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": QUESTION}], response_model=Search
    )
    return search.model_dump()
