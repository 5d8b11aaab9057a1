"""An agent of a run: whom it asks, what it is told, and what it may call. What it may do is the topology's to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from strictreply.client._client import AsyncStrictClient, StrictClient
from strictreply.coordination._actions import Permitted
from strictreply.coordination._permissions import ActionTerms, Declared
from strictreply.coordination._runs.human_requests import HumanKind
from strictreply.coordination.formats import AgentContext, CoordinationContext, SystemPromptBuilder
from strictreply.values._errors import ContractError
from strictreply.values._json import JSONObject, Message
from strictreply.wires._chat import peek

_SAID_BY_THE_RUN: Final = frozenset({"messages", "contract", "policy", "steering", "tools", "n", "stream"})
_HELD: Final = ("text", "json_object")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgent:
    """An agent that a chat-completions API answers for.

    ``client`` is what :func:`strictreply.wrap` gives, sync or async. ``request`` holds keywords of
    ``chat.completions.create`` beside the messages: ``model``, ``temperature`` and others. ``goal`` and ``instruction``
    stand in its system prompt. ``tools`` are anything that declares a tool; each needs a function, which is run. None
    is what the processor's ``tools=`` says of this agent, an empty list is no tools. ``asks`` is the kind of question
    that its ``ask_user`` puts: it says which decisions an answer may take.
    ``skip_to`` is the agent that follows when the user skips this one after an error, None for none: the branch ends.

    Raises ContractError when ``client`` is not wrapped, and when ``request`` holds what the run itself says in each
    request (messages, contract, policy, steering, tools, and one whole reply instead of ``n`` or a stream), or a
    ``response_format`` other than ``text`` and ``json_object``: the schema of a reply is that of its actions.
    """

    name: str
    client: StrictClient | AsyncStrictClient = field(repr=False)
    request: Mapping[str, Any] = field(repr=False)
    goal: str = ""
    instruction: str = ""
    tools: Declared | None = None
    asks: HumanKind = HumanKind.GENERAL
    skip_to: str | None = None
    _prompts: dict[Permitted, _Prompt] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a client whose replies nobody would check in its own loop."""
        if not _is_wrapped(self.client):
            raise ContractError(f"agent {self.name!r} needs a wrapped client: client=strictreply.wrap(…)")
        if taken := sorted(_SAID_BY_THE_RUN & set(self.request)):
            listed = ", ".join(taken)
            raise ContractError(f"agent {self.name!r}: the run itself says {listed}; leave it out of request=")
        wanted = self.request.get("response_format")
        if wanted is not None and peek(wanted, "type") not in _HELD:
            raise ContractError(
                f"agent {self.name!r}: its actions say what a reply is; leave response_format out of request=, or take "
                'one of type "json_object"'
            )

    @property
    def is_async(self) -> bool:
        """Whether its client must be awaited."""
        return isinstance(self.client, AsyncStrictClient)

    def prompt(self, terms: ActionTerms, prompts: SystemPromptBuilder) -> Message:
        """Write its system turn: who it is, and what ``terms`` permit it at this moment."""
        kept = self._prompts.get(terms.permitted)
        if kept is None or kept.tools is not terms.tools or kept.prompts is not prompts:
            context = AgentContext(self.name, self.goal, self.instruction)
            kept = _Prompt(terms.tools, prompts, prompts.build(context, CoordinationContext.of(terms)))
            self._prompts[terms.permitted] = kept
        return {"role": "system", "content": kept.content}


class _Prompt(NamedTuple):
    """A system prompt, and what it was made of beside the permissions: it is made once, not on every ask."""

    tools: object
    prompts: SystemPromptBuilder
    content: str


def _is_wrapped(client: object) -> bool:
    """Tell whether a client is held to a contract."""
    return isinstance(client, StrictClient | AsyncStrictClient)


def assistant_turn(message: Message, calls: list[JSONObject]) -> Message:
    """Give an accepted reply as a turn to be sent back: its calls in the native way, however they were written."""
    if calls:
        return {"role": "assistant", "content": None, "tool_calls": calls}
    return {"role": "assistant", "content": message.get("content")}
