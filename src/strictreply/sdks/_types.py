"""The types of the client libraries, for signatures of packages above: nothing is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import anthropic
    import openai
    from anthropic.resources import beta, messages, models
    from openai.resources import chat, responses
    from openai.types.chat import ChatCompletion

    Timeout: TypeAlias = openai.Timeout
    Chat: TypeAlias = chat.Chat
    AsyncChat: TypeAlias = chat.AsyncChat
    Responses: TypeAlias = responses.Responses
    AsyncResponses: TypeAlias = responses.AsyncResponses
    Beta: TypeAlias = beta.Beta
    AsyncBeta: TypeAlias = beta.AsyncBeta
    Models: TypeAlias = models.Models
    AsyncModels: TypeAlias = models.AsyncModels
    Messages: TypeAlias = messages.Messages
    AsyncMessages: TypeAlias = messages.AsyncMessages
    Completion: TypeAlias = ChatCompletion
    Anthropic: TypeAlias = anthropic.Anthropic
    AsyncAnthropic: TypeAlias = anthropic.AsyncAnthropic
    SyncClient: TypeAlias = openai.OpenAI
    AsyncClient: TypeAlias = openai.AsyncOpenAI


class SyncSDKClient(Protocol):
    """A sync client of an SDK that Stainless made."""

    max_retries: int

    def is_closed(self) -> bool: ...

    def close(self) -> None: ...


class AsyncSDKClient(Protocol):
    """An async client of an SDK that Stainless made."""

    max_retries: int

    def is_closed(self) -> bool: ...

    async def close(self) -> None: ...


class SyncClaude(SyncSDKClient, Protocol):
    """A sync client of the anthropic SDK."""

    @property
    def messages(self) -> object: ...


class AsyncClaude(AsyncSDKClient, Protocol):
    """An async client of the anthropic SDK."""

    @property
    def messages(self) -> object: ...
