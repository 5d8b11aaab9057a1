"""Tools that a request of the Responses API declares outside of its list of tools.

They are in a namespace, in an item ``additional_tools`` of the input, or in an item with the tools
that a tool search has loaded. A call names its namespace in a member next to its name. For a tool
that was loaded by itself, the server uses its name as the namespace, which adds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from strictreply.values._limits import JSONObject
from strictreply.wires._dialects import object_in
from strictreply.wires._members import peek

DECLARED_TOOLS = "declared_tools"
"""The member of a read request with these tools, in the common form."""

_LOADING = ("additional_tools", "tool_search_output")
_OURS = ("function", "custom")

Spaces: TypeAlias = Mapping[tuple[str, str], str]


def declared_elsewhere(tools: Iterable[object], items: Iterable[object]) -> list[JSONObject]:
    """Return the functions and custom tools that are declared in namespaces and items.

    Each has the name by which it is called, and its namespace in another member. If several tools
    share a name, those in a namespace are named ``namespace.name``. Of two tools in the same place
    the last counts, and a tool of the request's own list takes precedence over one without a
    namespace.
    """
    listed = [tool for tool in map(_plain, tools) if tool.get("type") in _OURS]
    own = {tool["name"]: tool for tool in listed if isinstance(tool.get("name"), str)}
    found = {(space, tool["name"]): tool for space, tool in _all_in(tools, items)}

    places = {(space, name) for space, name in found} | {("", name) for name in own}
    counts = Counter(name for _, name in places)

    declared: dict[str, JSONObject] = {}
    for (space, name), tool in found.items():
        named = f"{space}.{name}" if space and counts[name] > 1 else name
        if named not in own:
            spaced = {"namespace": space} if space else {}
            declared[named] = _nested(tool, named) | spaced

    return list(declared.values())


def name_of(tool: JSONObject) -> str:
    """Return the name of a tool in the common form."""
    return str(peek(peek(tool, str(tool.get("type"))), "name"))


def declared_name(tool: object) -> str:
    """Return the name of a function that a request declares in the common form, if it is one."""
    return str(peek(peek(tool, "function"), "name"))


def own_names(tools: Iterable[JSONObject]) -> dict[str, str]:
    """Return the names without their namespaces, of the tools in the common form that have one."""
    spaced = [(name_of(tool), tool["namespace"]) for tool in tools if "namespace" in tool]
    return {name: name.removeprefix(f"{space}.") for name, space in spaced}


def allowed_in(listed: Iterable[object], known: Iterable[object]) -> list[JSONObject]:
    """Return the functions and custom tools in a list of allowed ones, in the common form.

    ``known`` are all declared tools. A namespace stands for all its tools, and a name that several
    namespaces declare stands for each of these tools.
    """
    tools: list[JSONObject] = [tool for tool in known if isinstance(tool, dict)]
    names = [name_of(tool) for tool in tools]
    own = own_names(tools)
    allowed: dict[tuple[Any, str], JSONObject] = {}

    for entry in map(_plain, listed):
        kind = str(entry.get("type"))
        name = name_of(entry) if kind in entry else entry.get("name")
        space = name if kind == "namespace" else entry.get("namespace")
        spaced = [
            tool
            for tool in tools
            if name_of(tool) in own
            and space in (None, tool["namespace"])
            and (kind == "namespace" or (kind, name) == (tool["type"], own[name_of(tool)]))
        ]
        if kind in _OURS and (not spaced or (name in names and space is None)):
            spaced = [{"type": kind, kind: {"name": name}}]

        for tool in spaced:
            allowed[tool["type"], name_of(tool)] = _entry(tool)

    return list(allowed.values())


def _entry(tool: JSONObject) -> JSONObject:
    return {"type": tool["type"], tool["type"]: {"name": name_of(tool)}}


class ToolNames(list[str]):
    """The names of tools; ``spaces`` has the names of the tools in a namespace."""

    def __init__(self, names: Iterable[str], spaces: Spaces | None = None) -> None:
        super().__init__(names)
        self.spaces = spaces or {}


def spaces_of(tools: Iterable[JSONObject]) -> Spaces:
    """Return the name of each tool in the common form, by namespace and declared name."""
    known = [(tool["namespace"], name_of(tool)) for tool in tools if "namespace" in tool]
    return {(space, name.removeprefix(f"{space}.")): name for space, name in known}


def called_name(name: object, namespace: object, known: Container[str]) -> object:
    """Return the name of a call's tool.

    If the namespace does not declare it, it is ``namespace.name``, which is not a tool.
    """
    if not isinstance(name, str) or namespace in (None, "", name):
        return name

    named = f"{namespace}.{name}"
    if not isinstance(namespace, str):
        return named

    spaces = known.spaces if isinstance(known, ToolNames) else {}
    return spaces.get((namespace, name), named)


def _all_in(tools: Iterable[object], items: Iterable[object]) -> Iterator[tuple[str, JSONObject]]:
    """Yield each tool that is declared elsewhere, with its namespace, which may be empty."""
    yield from _spread(tool for tool in tools if peek(tool, "type") == "namespace")
    for item in items:
        if peek(item, "type") in _LOADING:
            yield from _spread(_listed(peek(item, "tools")))


def _spread(tools: Iterable[object]) -> Iterator[tuple[str, JSONObject]]:
    for given in tools:
        tool = _plain(given)
        is_space = tool.get("type") == "namespace"
        space = tool.get("name") if is_space else ""

        for each in map(_plain, _listed(tool.get("tools"))) if is_space else (tool,):
            name = each.get("name")
            if each.get("type") in _OURS and isinstance(name, str):
                yield ("" if space == name else str(space)), each


def _plain(tool: object) -> JSONObject:
    return object_in(tool) or {}


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _nested(tool: JSONObject, name: str) -> JSONObject:
    kind = str(tool["type"])
    within = {member: tool[member] for member in tool if member != "type"}
    if within.get("strict", ...) is None:
        del within["strict"]

    return {"type": kind, kind: within | {"name": name}}
