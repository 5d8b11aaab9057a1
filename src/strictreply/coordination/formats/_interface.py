"""What a response format is: how actions are described, shown and read. No format is known here by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from strictreply.coordination._actions.kinds import ActionType
from strictreply.coordination._actions.shapes import SHAPES, ExtraKeys, example_of
from strictreply.coordination._replies.processors import ResponseProcessor
from strictreply.coordination.formats._contexts import CoordinationContext
from strictreply.values._json import JSONObject


class BaseResponseFormat(ABC):
    """A way of writing actions (requirement M60).

    ``extra`` says whether an action may have members that its shape does not name (requirement X3). ``actions`` are
    always those that are permitted, in order.
    """

    extra: ExtraKeys = "forbid"

    @abstractmethod
    def get_format_name(self) -> str:
        """Give the name that it is registered by."""

    @abstractmethod
    def build_format_instructions(self, actions: Sequence[ActionType], descriptions: Mapping[ActionType, str]) -> str:
        """Tell a model how to write a reply, and which actions it may ask for."""

    @abstractmethod
    def build_action_descriptions(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> dict[ActionType, str]:
        """Say of each action what it does, and with whom."""

    @abstractmethod
    def get_examples(self, actions: Sequence[ActionType], context: CoordinationContext) -> list[str]:
        """Write an example of each action but the parallel one; each must be valid for this context."""

    @abstractmethod
    def get_parallel_invocation_examples(self, context: CoordinationContext) -> list[str]:
        """Write examples of handing over to several agents at once."""

    @abstractmethod
    def create_processor(self) -> ResponseProcessor:
        """Make the processor that reads replies in this format."""

    def reminder(self) -> str:
        """Say in a sentence how a reply is written, to an agent whose last one was not; a format may say more."""
        return f"Please reply in {self.get_format_name().upper()} alone, nothing around it, as you were told."


class ActionFormat(BaseResponseFormat):
    """A format that differs from others only in how an action is spelt: all else comes from the table of actions."""

    name: str

    def __init__(self, extra: ExtraKeys = "forbid") -> None:
        """Forbid other members of actions, or allow them."""
        self.extra = extra

    @abstractmethod
    def spell(self, action: JSONObject) -> str:
        """Write an action on one line."""

    @abstractmethod
    def rule(self) -> str:
        """Say in a sentence or two how every reply is written."""

    def get_format_name(self) -> str:
        """Give the name that it is registered by."""
        return self.name

    def reminder(self) -> str:
        """Say the rule again."""
        return self.rule()

    def build_format_instructions(self, actions: Sequence[ActionType], descriptions: Mapping[ActionType, str]) -> str:
        """State the rule, then list the actions."""
        lines = [f"- {action.value}: {descriptions[action]}" for action in actions]
        return "\n".join([self.rule(), "The action is one of:", *lines])

    def build_action_descriptions(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> dict[ActionType, str]:
        """Take the words from the table of actions."""
        allowed = context.permitted()
        return {action: SHAPES[action].told(allowed) for action in actions}

    def get_examples(self, actions: Sequence[ActionType], context: CoordinationContext) -> list[str]:
        """Make the examples from the table of actions."""
        return self._spelled([action for action in actions if action is not ActionType.PARALLEL_INVOKE], context)

    def get_parallel_invocation_examples(self, context: CoordinationContext) -> list[str]:
        """Make the example from the table of actions."""
        return self._spelled([ActionType.PARALLEL_INVOKE], context)

    def _spelled(self, actions: Sequence[ActionType], context: CoordinationContext) -> list[str]:
        """Spell an example of each action that has one."""
        allowed = context.permitted()
        examples = (example_of(action, allowed, context.tools) for action in actions)
        return [self.spell(example) for example in examples if example is not None]
