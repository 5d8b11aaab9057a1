"""The direction of imports: values under mechanisms under the loop under the shells, and no SDK below the edge."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# From the lowest layer to the highest; a room may import its own layer and those listed before it.
# A room is a module or a package right under strictreply; "" is strictreply/__init__.py.
LAYERS: dict[str, set[str]] = {
    "values": {"attempts", "credentials", "errors", "issues", "limits", "replies", "story", "typing", "worded"},
    "mechanisms": {
        "answers",
        "asking",
        "channels",
        "checking",
        "complaints",
        "contract",
        "coordination",
        "decoding",
        "definitions",
        "describing",
        "diagnosis",
        "driving",
        "expansion",
        "extraction",
        "failures",
        "fidelity",
        "models",
        "pipeline",
        "policy",
        "published",
        "schema",
        "replaying",
        "reuse",
        "scoping",
        "shaping",
        "signatures",
        "steering",
        "terms",
        "tools",
        "watching",
    },
    "loop": {"flow"},
    "shells": {"client", "endings", "exchange", "pauses", "recordings", "running", "transport"},
    "facade": {""},
    "programs": {"__main__", "cli", "demo", "integrations", "testing"},
}
COORDINATION = ("faults", "topology", "actions", "replies", "formats", "runs", "validation", "steering", "routing", "")
"""The rooms of ``coordination`` from the lowest to the highest; "" is its facade."""
PURE_LAYERS = ("values", "mechanisms", "loop")
OUTSIDE_THE_PURE = {"aiohttp", "httpx", "httpx2", "openai", "rich", "typer"}  # not even for types
RUNTIME_OPENAI = {"cli", "integrations", "testing"}  # the rooms that may import openai at run time

COMES_WITH = {"pydantic_core": "pydantic"}  # what is imported under another name than it is installed by

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "strictreply"
ORDER = list(LAYERS)
LAYER_OF = {room: ORDER.index(layer) for layer, rooms in LAYERS.items() for room in rooms}


@dataclass(frozen=True, slots=True)
class Import:
    """One import as the source spells it: ``target`` is a module's dotted name; ``typing_only`` is never executed."""

    source: str
    target: str
    typing_only: bool


def module_name(path: Path) -> str:
    """Give the dotted name of a source file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    """Name the module or package right under strictreply that a dotted name belongs to."""
    return module.removeprefix("strictreply").removeprefix(".").partition(".")[0]


def statements(node: ast.AST, *, typing_only: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Walk a tree, saying of each node whether it stands under ``if TYPE_CHECKING:``."""
    yield node, typing_only
    guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    body = set(node.body) if isinstance(node, ast.If) and guarded else set()
    for child in ast.iter_child_nodes(node):
        yield from statements(child, typing_only=typing_only or child in body)


def targets(node: ast.AST, module: str) -> Iterator[str]:
    """Name the modules that one import statement loads; a name that is no module counts as its module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
        above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
        origin = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            member = f"{origin}.{alias.name}"
            yield member if member in MODULES else origin


def imports_of(module: str) -> Iterator[Import]:
    """Read every import of a module, also those inside functions."""
    for node, typing_only in statements(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        for target in targets(node, module):
            yield Import(module, target, typing_only)


IMPORTS = [found for module in MODULES for found in imports_of(module)]
INTERNAL = [found for found in IMPORTS if found.target in MODULES and found.target != found.source]


def test_every_module_has_its_layer() -> None:
    """Each module stands in the table once, and the table names nothing that is not there."""
    placed = [room for rooms in LAYERS.values() for room in rooms]
    assert sorted(placed) == sorted({room_of(module) for module in MODULES})


def test_imports_only_go_downwards() -> None:
    """No room imports a higher layer, not even for types."""
    assert [found for found in INTERNAL if LAYER_OF[room_of(found.target)] > LAYER_OF[room_of(found.source)]] == []


def test_the_rooms_of_coordination_import_downwards() -> None:
    """Within coordination, too, a room imports only itself and those listed before it."""
    inside = "strictreply.coordination"
    floor = {f"{inside}.{room}".rstrip("."): height for height, room in enumerate(COORDINATION)}

    def height(module: str) -> int:
        return floor[".".join(module.split(".")[:3])]

    within = [found for found in INTERNAL if found.source.startswith(inside) and found.target.startswith(inside)]
    assert [found for found in within if height(found.target) > height(found.source)] == []
    assert {height(module) for module in MODULES if module.startswith(inside)} == set(floor.values())


def test_no_import_cycles() -> None:
    """Modules import each other in no circle, late and typing-only imports included."""
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in INTERNAL:
        graph[found.source].add(found.target)
    cycle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = error.args[1]
    assert cycle == []


def test_the_pure_layers_know_no_sdk() -> None:
    """Values, mechanisms and the loop import no HTTP library, no SDK and no terminal library, not even for types."""
    pure = set().union(*(LAYERS[layer] for layer in PURE_LAYERS))
    assert [
        found
        for found in IMPORTS
        if room_of(found.source) in pure and found.target.partition(".")[0] in OUTSIDE_THE_PURE
    ] == []


def test_the_core_needs_openai_for_types_only() -> None:
    """Outside the programs, openai is imported under TYPE_CHECKING alone."""
    assert [
        found
        for found in IMPORTS
        if found.target.partition(".")[0] == "openai"
        and not found.typing_only
        and room_of(found.source) not in RUNTIME_OPENAI
    ] == []


def test_what_is_imported_is_declared() -> None:
    """Every third-party package that the sources name is a dependency in pyproject.toml, not the guest of another."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    declared = {re.split(r"[^A-Za-z0-9-]", requirement)[0] for requirement in wanted}
    tops = {found.target.partition(".")[0] for found in IMPORTS} - sys.stdlib_module_names - {"strictreply"}
    assert {COMES_WITH.get(top, top).replace("_", "-") for top in tops} <= declared


def test_importing_the_library_loads_no_sdk() -> None:
    """``import strictreply`` in a fresh interpreter loads neither an SDK nor an HTTP nor a terminal library."""
    script = f"import strictreply, sys; print(*sorted({OUTSIDE_THE_PURE!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
