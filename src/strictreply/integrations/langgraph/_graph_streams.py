"""``stream_mode="messages"``: the text of an agent's answer as it is written.

What is shown is what ``client.stream`` shows: the words of a final response while they arrive, and
calls when their reply is accepted. Words that are not part of the reply in the end are retracted.
"""

from __future__ import annotations

import inspect
from typing import Any, Final, Self
from uuid import uuid4

from strictreply import Accepted, CallFailed, Exchange, Provisional, Retracted
from strictreply.coordination import ActionType
from strictreply.core import JSON, JSONObject
from strictreply.core.judging import IncrementalReader
from strictreply.integrations import load
from strictreply.integrations.langgraph._graph_state import as_text
from strictreply.integrations.langgraph._graph_turns import AskAgent

RETRACTED: Final = {"strictreply": "retracted"}
"""What the last piece of a message says that is not part of the reply in the end."""


def ask_aloud(asking: AskAgent) -> Exchange | CallFailed | None:
    """Ask an agent through a stream, and show its answer; None when nobody listens."""
    listeners = _Told.of_listeners()
    if listeners is None:
        return None

    client: Any = asking.agent.client
    with listeners, client.stream(**asking.request) as stream:
        for event in stream:
            listeners.take(event)
        listeners.asked = stream.exchange

    return listeners.asked


async def aask_aloud(asking: AskAgent) -> Exchange | CallFailed | None:
    """Ask an agent like :func:`ask_aloud`, awaiting."""
    listeners = _Told.of_listeners()
    if listeners is None:
        return None

    client: Any = asking.agent.client
    with listeners:
        async with client.stream(**asking.request) as stream:
            async for event in stream:
                listeners.take(event)
            listeners.asked = stream.exchange

    return listeners.asked


class _Told:
    """The messages of one ask, for LangGraph's listeners: each attempt is one of its own.

    It is left with what was ``asked``: the exchange, or the CallFailed that ended it.
    """

    def __init__(self, listeners: list[Any], config: JSONObject) -> None:
        self.asked: Exchange | CallFailed | None = None
        self._listeners = listeners
        self._run = uuid4()
        self._begin()
        for listener in listeners:
            tags = config.get("tags")
            metadata = dict(config.get("metadata") or {})
            listener.on_chat_model_start({}, [[]], run_id=self._run, tags=tags, metadata=metadata)

    @classmethod
    def of_listeners(cls) -> _Told | None:
        """Return one for the listeners of this run; None when there are none."""
        config: Any = load("langgraph.config").get_config()
        callbacks = config.get("callbacks")
        handlers = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", ())
        listeners = [each for each in handlers if _streams(each)]
        return cls(listeners, config) if listeners else None

    def take(self, event: Provisional | Retracted | Accepted) -> None:
        """Show what an event adds."""
        match event:
            case Provisional(delta=delta):
                self._reader.feed(delta)
                if self._spoken.has_more:
                    self._show(self._spoken.taken())
            case Retracted():
                if self._shown:
                    self._emit("", response_metadata=RETRACTED)
                self._begin()
            case Accepted(reply=reply):
                self._accept(reply)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Let the listeners forget this ask."""
        nothing = load("langchain_core.outputs").LLMResult(generations=[[]])
        for listener in self._listeners:
            listener.on_llm_end(nothing, run_id=self._run)

        if isinstance(error, CallFailed):
            self.asked = error
        return isinstance(error, CallFailed)

    def _begin(self) -> None:
        self._id = f"run-{uuid4()}"
        self._shown = ""
        self._spoken = _Spoken()
        self._reader = IncrementalReader(self._spoken)

    def _accept(self, reply: Any) -> None:
        result = getattr(reply, "answer", None)
        calls = reply.calls or getattr(result, "calls", ())
        pieces: list[dict[str, Any]] = [
            {
                "type": "tool_call_chunk",
                "name": call.tool,
                "args": as_text(call.to_dict()["args"]),
                "id": call.id,
                "index": index,
            }
            for index, call in enumerate(calls)
        ]
        if pieces:
            self._emit("", tool_call_chunks=pieces)

        is_final = getattr(result, "action_type", None) is ActionType.FINAL_RESPONSE
        content: JSON = result.final_response if result is not None and is_final else None
        if content is not None and not self._shown:
            self._show(as_text(content))

    def _show(self, text: str) -> None:
        self._shown += text
        self._emit(text)

    def _emit(self, text: str, **members: object) -> None:
        chunk = load("langchain_core.messages").AIMessageChunk(text, id=self._id, **members)
        piece = load("langchain_core.outputs").ChatGenerationChunk(message=chunk)
        for listener in self._listeners:
            listener.on_llm_new_token(text, chunk=piece, run_id=self._run)


def _streams(handler: Any) -> bool:
    """Return whether a handler passes messages on, without being awaited."""
    listens = hasattr(handler, "tap_output_iter")
    return listens and not inspect.iscoroutinefunction(handler.on_llm_new_token)


class _Spoken:
    """Listens to the JSON of an action, and keeps the text of a final response.

    ``has_more`` says whether there is text that was not :meth:`taken`. Nothing is ever refused:
    the reply is judged elsewhere.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._name = ""  # of the outermost member that is being read
        self._is_name = False
        self._is_final = False
        self._pieces: list[str] = []

    @property
    def has_more(self) -> bool:
        """Whether more text may be shown."""
        return self._is_final and bool(self._pieces)

    def taken(self) -> str:
        """Return the text that was not returned before."""
        text = "".join(self._pieces)
        self._pieces = []
        return text

    def key_begins(self) -> bool:
        """Hear that the name of a member begins."""
        self._is_name = True
        return False

    def key(self, name: str) -> bool:
        """Hear the name of the member whose value comes next."""
        self._is_name = False
        if self._depth == 1:
            self._name = name
        return False

    def item(self, index: int) -> bool:  # noqa: ARG002
        """Hear that an item comes next."""
        return False

    def member(self, count: int) -> bool:  # noqa: ARG002
        """Hear that one more member follows."""
        return False

    def begins(self, kind: str) -> bool:
        """Hear the type of a value."""
        self._depth += kind in ("object", "array")
        return False

    def part(self, text: str) -> bool:
        """Hear a part of a string."""
        if self._depth == 1 and self._name == "content" and not self._is_name:
            self._pieces.append(text)
        return False

    def scalar(self, value: JSON) -> bool:
        """Hear a whole string, number or word."""
        if self._depth == 1 and self._name == "next_action":
            self._is_final = value == ActionType.FINAL_RESPONSE
        return False

    def ends(self, value: JSON, size: int) -> bool:  # noqa: ARG002
        """Hear a whole object or array."""
        self._depth -= 1
        return False
