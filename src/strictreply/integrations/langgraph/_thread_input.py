"""What a graph is given, read before LangGraph writes it to a thread.

LangGraph puts a new input over whatever the thread was doing, and only then runs a node: a node
that refuses the input would leave the thread without the calls that wait there. So the input is
read where the graph is invoked. The messages of a user begin a run, as ``begin`` does, and an input
that would drop what ran is refused while the thread is still as it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from itertools import takewhile
from typing import Any, Final, NamedTuple, cast

from strictreply.coordination import CoordinationCode, StateError
from strictreply.core import JSON, Message
from strictreply.core.forms import peek
from strictreply.integrations import load
from strictreply.integrations.langgraph._graph_settings import GraphSettings
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    TOOLS,
    RunState,
    after_history,
    changed,
)
from strictreply.integrations.langgraph._run_beginning import RUN_FIELDS, begin

_BEGIN: Final = (
    "begin(topology, text) makes the input of a first run, and begin(topology, text, state=…) "
    "the input that continues a conversation"
)
_MESSAGES: Final = (
    "messages of text, with the user's last; a thread with a conversation takes only the "
    "user's; "
    f"{_BEGIN}"
)
_REMEDY: Final = (
    "answer it (Command(resume=…)) or resume it (invoke(None, config)), {}"
    "or begin on another thread"
)
_GO_ON: Final = "continue with begin(…, state=graph.get_state(config).values), "
_ROLES: Final[Mapping[object, str]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
}
_TEXTS: Final = (None, "text", "input_text", "output_text")
_CALLS: Final = ("tool_calls", "function_call")


def graph_of(settings: GraphSettings, context: type | None) -> Any:
    """Return an empty ``StateGraph``, which reads the input of each run before it is written."""
    base = load("langgraph.graph").StateGraph
    guarded = _guarded(partial(read_input, settings))

    def compile_(self: object, *args: object, **named: object) -> object:
        compiled = base.compile(self, *args, **named)
        # StateGraph makes an object of this class and no other; LangGraph copies it by its class
        compiled.__class__ = guarded
        return compiled

    kind = type("TeamGraph", (base,), {"compile": compile_, "__module__": __name__})
    return kind(settings.state_schema, context_schema=context)


def _guarded(read: Callable[[Mapping[str, object], Mapping[str, Any]], object]) -> type:
    """Return the class of a compiled graph whose inputs are ``read`` first."""
    base = load("langgraph.graph.state").CompiledStateGraph

    def stream(
        self: Any,
        input: Any,  # noqa: A002 - as LangGraph names it
        config: Any = None,
        **named: Any,
    ) -> Iterator[Any]:
        if isinstance(input, Mapping):
            thread = self.get_state(config).values if _has_thread(self, config) else {}
            input = read(input, thread)  # noqa: A001
        yield from base.stream(self, input, config, **named)

    async def astream(
        self: Any,
        input: object,  # noqa: A002 - as LangGraph names it
        config: Any = None,
        **named: object,
    ) -> AsyncIterator[Any]:
        if isinstance(input, Mapping):
            thread = (await self.aget_state(config)).values if _has_thread(self, config) else {}
            input = read(input, thread)  # noqa: A001
        async with aclosing(base.astream(self, input, config, **named)) as parts:
            async for part in parts:
                yield part

    members = {"stream": stream, "astream": astream, "__module__": __name__}
    return type("CompiledTeamGraph", (base,), members)


def _has_thread(graph: Any, config: Any) -> bool:
    """Return whether a run goes to a thread of its own that may hold something.

    A graph inside another one is given its input again whenever it is resumed.
    """
    configs = load("langchain_core.runnables.config")
    merged = configs.ensure_config(configs.merge_configs(graph.config, config))
    known = merged.get("configurable", {})
    saver = known.get("__pregel_checkpointer") or graph.checkpointer
    is_nested = "__pregel_task_id" in known
    return bool(saver) and "thread_id" in known and not is_nested


def read_input(
    settings: GraphSettings, given: Mapping[str, object], thread: Mapping[str, object]
) -> Mapping[str, object]:
    """Return the input of a run, from what a graph was given and what its thread holds.

    Raises StateError for an input that holds no run on an empty thread, for messages that are no
    conversation, and for a run that would drop what ran; ContractError as ``begin`` does.
    """
    ours = {name for name in given if name in RUN_FIELDS}
    if "branch" not in thread:  # an input that was refused leaves empty fields
        thread = {}

    if ours == {"messages"}:
        new_state = _begun_by(settings, _conversation_in(given["messages"]), thread)
        own = {name: given[name] for name in settings.own_fields if name in given}
        return {**new_state, **own}

    if "branch" not in ours and not thread:
        missing = "/branch" if ours else "/messages"
        raise StateError([CoordinationCode.STATE_MISSING_FIELD.at(missing, hint=_BEGIN)])

    if "branch" in ours and thread:
        _refuse_dropping(given, cast("RunState", thread))
    return given


def _begun_by(
    settings: GraphSettings, conversation: list[_Said], thread: Mapping[str, object]
) -> RunState:
    """Begin a run with the last words of the user; what was said before them is told.

    The messages keep their ids: a graph around this one, which has them too, adds none twice.
    """
    last = [*takewhile(lambda line: line.role == "user", reversed(conversation))][::-1]
    before = conversation[: len(conversation) - len(last)]
    if not last or (before and thread):  # a thread that has a conversation is not given another
        raise StateError([CoordinationCode.STATE_WRONG_TYPE.at("/messages", expected=_MESSAGES)])

    text = "\n\n".join(line.text for line in last)
    new_state = begin(settings.topology, text, state=thread)
    *earlier, new = new_state["messages"]
    added = [line.message(new["timestamp"]) for line in (*before, *last)]
    new_state = changed(new_state, messages=[*earlier, *added])
    if not before:
        return new_state

    (entry,) = new_state["threads"]
    lines = "\n".join(f"{line.role}: {line.text}" for line in before)
    turn = {"role": "user", "content": after_history(lines, text)}
    new_state = changed(new_state, threads={entry: [turn]})
    if settings.hand_over == "request":
        return new_state

    history: JSON = [{"agent": line.role, "text": line.text} for line in (*before, *last)]
    return changed(new_state, history=history, heard={entry: len(conversation)})


def _refuse_dropping(given: Mapping[str, Any], thread: RunState) -> None:
    """Raise StateError for a run that does not go on from the one that waits on its thread."""
    last = next(iter(reversed(thread.get("routing_history") or ())), None)
    if last is None or last in (given.get("routing_history") or ()):
        return

    if last["to"] == BRANCH:
        raise _run_waits("/spawned", "")
    if last["to"] == TOOLS and _has_results(thread):
        raise _run_waits("/calling", _GO_ON)


def _run_waits(at: str, also: str) -> StateError:
    return StateError([CoordinationCode.STATE_RUN_WAITS.at(at, remedy=_REMEDY.format(also))])


def _has_results(thread: RunState) -> bool:
    """Return whether calls have results that a new conversation would not have."""
    done = (thread.get("calling") or {}).get("done")
    turns = (turn for one in thread.get("threads", {}).values() for turn in one)
    return bool(done) or any(turn.get("role") == "tool" for turn in turns)


class _Said(NamedTuple):
    """One message of a conversation, in text."""

    role: str
    text: str
    id: str | None

    def message(self, timestamp: str) -> Message:
        """Return it as a state keeps it."""
        own = {} if self.id is None else {"id": self.id}
        return {"role": self.role, "content": self.text, "timestamp": timestamp} | own


def _conversation_in(messages: object) -> list[_Said]:
    """Return messages of LangChain's or OpenAI's form that a user and an assistant wrote as text.

    Raises StateError for anything else.
    """
    several: Any = messages if isinstance(messages, list) else [messages]
    read = [_said(one) for one in several]
    known = [line for line in read if line is not None]
    if not known or len(known) < len(read):
        raise StateError([CoordinationCode.STATE_WRONG_TYPE.at("/messages", expected=_MESSAGES)])
    return known


def _said(message: object) -> _Said | None:
    """Read a message; None for one with anything but text, and for one of somebody else."""
    role: Any = "user"
    content: Any = message
    id_: Any = None
    if isinstance(message, tuple) and len(message) == 2:  # noqa: PLR2004 - a role and a content
        role, content = message
    elif not isinstance(message, str):
        role = peek(message, "role") or peek(message, "type")
        content = peek(message, "content")
        id_ = peek(message, "id")

    parts = content if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else _text_of(part) for part in parts]
    words = [text for text in texts if isinstance(text, str)]
    is_known = isinstance(role, str) and role in _ROLES
    if not is_known or len(words) < len(texts) or any(peek(message, name) for name in _CALLS):
        return None
    return _Said(_ROLES[role], "".join(words), id_ if isinstance(id_, str) else None)


def _text_of(part: object) -> object:
    """Return the text of a part that is nothing else, such as an image with a caption."""
    return peek(part, "text") if peek(part, "type") in _TEXTS else None
