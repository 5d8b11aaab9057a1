"""The types of the client libraries, for signatures of packages above: nothing is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import openai
    from openai.resources import chat, responses
    from openai.types.chat import ChatCompletion

    SyncClient: TypeAlias = openai.OpenAI
    AsyncClient: TypeAlias = openai.AsyncOpenAI
    Timeout: TypeAlias = openai.Timeout
    Chat: TypeAlias = chat.Chat
    AsyncChat: TypeAlias = chat.AsyncChat
    Responses: TypeAlias = responses.Responses
    AsyncResponses: TypeAlias = responses.AsyncResponses
    Completion: TypeAlias = ChatCompletion
