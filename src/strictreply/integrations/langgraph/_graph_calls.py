"""One call in a graph: what LangGraph gives to its tool, and what the tool tells LangGraph.

A tool is declared once and knows no graph. For one call it is bound to the state, the store, the
context and the id of that call, and what it returns is looked at before it becomes a result: a
Command is for the graph, and only its words are for the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from strictreply import AbortRun, ContractError
from strictreply.core.forms import peek
from strictreply.core.tools import takes_context, with_arguments
from strictreply.integrations import load
from strictreply.integrations.langgraph._graph_state import RunState
from strictreply.loop import RunTool, ToolOutcome
from strictreply.loop.values import AgentToolCall


@dataclass(frozen=True, slots=True)
class RunInGraph:
    """Effect: run one call of a graph.

    What comes back is its outcome, and the ``Command`` that its tool returned, or None.
    """

    run: RunTool
    state: RunState


class GraphCall:
    """One call in a graph: its tool with what LangGraph gives it, and the Command it returned."""

    def __init__(self, effect: RunInGraph) -> None:
        self.command: Any = None
        self._call = effect.run.call
        self._state = effect.state

        injected = (
            {}
            if effect.run.tool.origin.signature is None
            else effect.run.tool.origin.signature.injected
        )
        given = {name: self._given(name, kind) for name, kind in injected.items()}
        tool = with_arguments(effect.run.tool, given)
        if takes_context(tool) and self._runtime.context is not None:
            tool = tool.with_context(self._runtime.context)

        watched = self._watched(tool.function, is_async=tool.is_async)
        self.run = RunTool(replace(tool, function=watched), self._call)

    def ended(self, error: AbortRun) -> ToolOutcome:
        """Return the outcome of this call, which ended the run."""
        call = AgentToolCall(
            tool_call_id=str(self._call.id), name=self._call.tool, arguments_json="{}"
        )
        return ToolOutcome(call.failed(type(error).__name__, str(error)), error)

    def _watched(self, function: Any, *, is_async: bool) -> Any:
        async def arun(*args: object, **named: object) -> object:
            return self._on_result(await function(*args, **named))

        def run(*args: object, **named: object) -> object:
            result = function(*args, **named)
            if inspect.isawaitable(result):
                return _Later(result, self._on_result)
            return self._on_result(result)

        return arun if is_async else run

    def _on_result(self, result: Any) -> object:
        """Return what the model is told of a result; keep a Command."""
        if not isinstance(result, load("langgraph.types").Command) or result.graph is not None:
            return result  # a Command for the graph around this one is raised like any other signal

        self.command = result
        update: Any = result.update
        written = update.get("messages", ()) if isinstance(update, Mapping) else ()
        for message in written if isinstance(written, list | tuple) else (written,):
            if peek(message, "tool_call_id") == self._call.id:
                return peek(message, "content")

        return f"handed over to {result.goto}" if result.goto else None

    @cached_property
    def _runtime(self) -> Any:
        return load("langgraph.runtime").get_runtime()

    def _given(self, name: str, annotation: object) -> object:
        """Return what LangGraph gives to a parameter, as its own tool node does."""
        node = load("langgraph.prebuilt.tool_node")
        tools = load("langchain_core.tools")
        state: dict[str, Any] = dict(self._state)

        for kind in _parts(annotation):
            type_ = kind if isinstance(kind, type) else type(kind)
            if issubclass(type_, node.InjectedState):
                field = getattr(kind, "field", None)
                return state if field is None else state[field]
            if issubclass(type_, node.InjectedStore):
                return self._runtime.store
            if issubclass(type_, tools.InjectedToolCallId):
                return self._call.id
            if issubclass(type_, node.ToolRuntime):
                return self._tool_runtime(node, state)
            if type_.__name__ == "RunnableConfig":
                return load("langgraph.config").get_config()

        raise ContractError(
            f"the tool {self._call.tool!r}: LangGraph has no value for its parameter {name!r}"
        )

    def _tool_runtime(self, node: ModuleType, state: Mapping[str, object]) -> object:
        names = ("context", "store", "stream_writer", "execution_info", "server_info")
        known = inspect.signature(node.ToolRuntime).parameters
        shared = {name: getattr(self._runtime, name) for name in names if name in known}
        config = load("langgraph.config").get_config()
        return node.ToolRuntime(state=state, config=config, tool_call_id=self._call.id, **shared)


class _Later:
    """What an async function behind a decorator returned: ``on_result`` gets its result."""

    def __init__(self, result: Awaitable[object], on_result: Callable[[object], object]) -> None:
        self._result = result
        self._on_result = on_result

    def __await__(self) -> Generator[object, object, object]:
        return self._on_result((yield from self._result.__await__()))

    def close(self) -> None:
        """Leave the result, which nobody awaits."""
        close = getattr(self._result, "close", None)
        if callable(close):
            close()


def _parts(annotation: object) -> list[object]:
    """Return the types and metadata that an annotation is made of."""
    origin = get_origin(annotation)
    if origin is None:
        return [annotation]
    if origin not in {Annotated, Union, UnionType}:
        return [origin]
    return [part for each in get_args(annotation) for part in _parts(each)]
