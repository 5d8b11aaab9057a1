"""instructor in its JSON Schema mode: the schema is the response_format, the content is JSON."""

from __future__ import annotations

import instructor
from openai import OpenAI

from probes.job import MODEL, QUESTION, TIMEOUT, Search


def app(base_url: str) -> object:
    """Ask for a search; give the validated one."""
    openai = OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT)
    client = instructor.from_openai(openai, mode=instructor.Mode.JSON_SCHEMA)
    search = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": QUESTION}], response_model=Search
    )
    return search.model_dump()
