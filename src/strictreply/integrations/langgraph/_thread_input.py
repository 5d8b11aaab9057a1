"""What a graph is given, read before LangGraph writes it to a thread.

LangGraph puts a new input over whatever the thread was doing, and only then runs a node: a node
that refuses the input would leave the thread without the calls that wait there. So the input is
read where the graph is invoked. The messages of a user begin a run, as ``begin`` does, and an input
that would drop what ran is refused while the thread is still as it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

from strictreply.coordination._actions import CoordinationCode, StateError
from strictreply.coordination._topology import Topology
from strictreply.integrations import load
from strictreply.integrations.langgraph._graph_state import BRANCH, TOOLS, RunState
from strictreply.integrations.langgraph._run_beginning import RUN_FIELDS, begin
from strictreply.wires._opening import peek

_BEGIN: Final = (
    "begin(topology, text) makes the input of a run, and begin(topology, text, state=…) that of a "
    "conversation that goes on"
)
_MESSAGES: Final = f"messages of the user alone, in text; {_BEGIN}"
_REMEDY: Final = (
    "answer it (Command(resume=…)) or resume it (invoke(None, config)), {}"
    "or begin on another thread"
)
_GO_ON: Final = "go on with begin(…, state=graph.get_state(config).values), "
_USERS: Final = ("user", "human")


def graph_of(
    schema: type, context: type | None, topology: Topology, own_fields: Collection[str]
) -> Any:
    """Return an empty ``StateGraph``, which reads the input of each run before it is written."""
    base = load("langgraph.graph").StateGraph
    guarded = _guarded(lambda given, thread: read_input(topology, own_fields, given, thread))

    def compile_(self: Any, *args: Any, **named: Any) -> Any:
        compiled = base.compile(self, *args, **named)
        # StateGraph makes an object of this class and no other; LangGraph copies it by its class
        compiled.__class__ = guarded
        return compiled

    kind = type("TeamGraph", (base,), {"compile": compile_})
    return kind(schema, context_schema=context)


def _guarded(read: Callable[[Any, Mapping[str, Any]], Any]) -> type:
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
        input: Any,  # noqa: A002 - as LangGraph names it
        config: Any = None,
        **named: Any,
    ) -> AsyncIterator[Any]:
        if isinstance(input, Mapping):
            thread = (await self.aget_state(config)).values if _has_thread(self, config) else {}
            input = read(input, thread)  # noqa: A001
        async with aclosing(base.astream(self, input, config, **named)) as parts:
            async for part in parts:
                yield part

    return type("CompiledTeamGraph", (base,), {"stream": stream, "astream": astream})


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
    topology: Topology,
    own_fields: Collection[str],
    given: Mapping[str, Any],
    thread: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Return the input of a run, from what a graph was given and what its thread holds.

    Raises StateError for an input that holds no run on an empty thread, for messages that are not
    the user's, and for a run that would drop what ran; ContractError as ``begin`` does.
    """
    ours = {name for name in given if name in RUN_FIELDS}
    if ours == {"messages"}:
        begun = begin(topology, _words_of(given["messages"]), state=thread)
        own = {name: given[name] for name in own_fields if name in given}
        return {**begun, **own}

    if not ours and not thread:
        raise StateError([CoordinationCode.STATE_MISSING_FIELD.at("/messages", hint=_BEGIN)])

    if "branch" in ours and thread:
        _refuse_dropping(given, cast("RunState", thread))
    return given


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


def _words_of(messages: object) -> str:
    """Return what the user says in messages of LangChain's or OpenAI's form.

    Raises StateError for anything else.
    """
    several: Any = messages if isinstance(messages, list) else [messages]
    texts = [_text_of(one) for one in several]
    words = [text for text in texts if text is not None]
    if not words or len(words) < len(texts):
        raise StateError([CoordinationCode.STATE_WRONG_TYPE.at("/messages", expected=_MESSAGES)])
    return "\n\n".join(words)


def _text_of(message: Any) -> str | None:
    """Return the text of a message of the user, None for any other message."""
    if isinstance(message, str):
        return message

    role: Any
    content: Any
    if isinstance(message, tuple) and len(message) == 2:  # noqa: PLR2004 - a role and a content
        role, content = message
    else:
        role = peek(message, "role") or peek(message, "type")
        content = peek(message, "content")

    parts = content if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else peek(part, "text") for part in parts]
    words = [text for text in texts if isinstance(text, str)]
    return "".join(words) if role in _USERS and len(words) == len(texts) else None
