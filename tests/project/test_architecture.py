"""The packages: imports run downwards, no SDK is needed below the client.

Private modules begin with ``_``.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = (
    "values",
    "reading",
    "schema",
    "wires",
    "contract",
    "retry",
    "sdks",
    "client",
    "core",
    "coordination",
    "loop",
    "pipeline",
    "batch",
    "measuring",
    "",
    "integrations",
    "testing",
    "cli",
    "__main__",
)
"""From the lowest to the highest: a package imports itself and those before it. "" is
``strictreply/__init__.py``.
"""
COORDINATION = (
    "actions",
    "_api_replies",
    "metrics",
    "topology",
    "_action_rules",
    "formats",
    "state",
    "_decisions",
    "graph",
    "steering",
    "routing",
    "validation",
    "",
)
"""The modules of ``coordination`` from the lowest to the highest; "" is its facade."""
PURE = (*PACKAGES[: PACKAGES.index("sdks")], "coordination", "pipeline")
OUTSIDE_THE_PURE = {"aiohttp", "httpx", "httpx2", "openai", "rich", "typer"}  # not even for types
# the packages that may import openai at run time
RUNTIME_OPENAI = {"batch", "cli", "integrations", "testing"}
PUBLIC = {
    "strictreply",
    "strictreply.__main__",
    "strictreply.batch",
    "strictreply.batch.lines",
    "strictreply.cli",
    "strictreply.core",
    "strictreply.core.arguments",
    "strictreply.core.calls",
    "strictreply.core.forms",
    "strictreply.core.judging",
    "strictreply.core.schemas",
    "strictreply.core.text",
    "strictreply.core.tools",
    "strictreply.coordination",
    "strictreply.coordination.actions",
    "strictreply.coordination.formats",
    "strictreply.coordination.graph",
    "strictreply.coordination.metrics",
    "strictreply.coordination.routing",
    "strictreply.coordination.state",
    "strictreply.coordination.steering",
    "strictreply.coordination.topology",
    "strictreply.coordination.validation",
    "strictreply.integrations",
    "strictreply.integrations.dbos",
    "strictreply.integrations.instructor",
    "strictreply.integrations.langgraph",
    "strictreply.integrations.litellm",
    "strictreply.integrations.otel",
    "strictreply.pipeline",
    "strictreply.loop",
    "strictreply.loop.invoke_result",
    "strictreply.loop.values",
    "strictreply.measuring",
    "strictreply.testing",
    "strictreply.testing.faults",
    "strictreply.testing.mounting",
    "strictreply.testing.ok",
    "strictreply.testing.plugin",
    "strictreply.testing.probing",
    "strictreply.testing.recordings",
    "strictreply.testing.recovery",
    "strictreply.testing.specimens",
    "strictreply.testing.strategies",
    "strictreply.testing.subjects",
    "strictreply.testing.survival",
}
"""What users import. Packages beside these hold only modules that begin with ``_``."""

COMES_WITH = {"opentelemetry": "opentelemetry-api", "pydantic_core": "pydantic"}
"""What is imported under another name than it is installed by."""

WAY_UP = ("strictreply.contract._contract", "strictreply.retry._next_request")
"""The one import that goes up, when ``Contract.next_request`` is called: it plays the loop, which
needs contracts. No package needs a higher one for a type.
"""

TYPE_CIRCLE = {
    "strictreply.contract._channels",
    "strictreply.contract._contract",
    "strictreply.contract._correcting",
    "strictreply.contract._judge",
}
"""The modules that import each other when those for types alone are counted, too: a contract calls
its judge, which names the contract.
"""

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "strictreply"
HEIGHT = {package: height for height, package in enumerate(PACKAGES)}


@dataclass(frozen=True, slots=True)
class Import:
    """One import as the source spells it.

    ``target`` is a module's dotted name; a ``typing_only`` import is never executed.
    """

    source: str
    target: str
    typing_only: bool


def module_name(path: Path) -> str:
    """Return the dotted name of a source file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def package_of(module: str) -> str:
    """Return the package right under strictreply that a dotted name belongs to."""
    return module.removeprefix("strictreply").removeprefix(".").partition(".")[0]


def statements(node: ast.AST, *, typing_only: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Walk a tree, saying of each node whether it stands under ``if TYPE_CHECKING:``."""
    yield node, typing_only
    guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    body = set(node.body) if isinstance(node, ast.If) and guarded else set()
    for child in ast.iter_child_nodes(node):
        yield from statements(child, typing_only=typing_only or child in body)


def targets(node: ast.AST, module: str) -> Iterator[str]:
    """Return the modules that one import statement loads.

    An imported name that is not a module counts as its module, and a public name of the root,
    which is imported when it is first used, as the module that defines it.
    """
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)

    if isinstance(node, ast.ImportFrom):
        package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
        above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
        origin = ".".join([*above, *([node.module] if node.module else [])])

        for alias in node.names:
            member = f"{origin}.{alias.name}"
            if origin == "strictreply" and alias.name in public_names():
                member = f"strictreply.{public_names()[alias.name]}"

            yield member if member in MODULES else origin


@cache
def public_names() -> dict[str, str]:
    """Return the module, below ``strictreply``, that defines each public name of the root."""
    for node in ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_MODULES":
            modules: dict[str, str] = ast.literal_eval(node.value)
            return {name: module for module, names in modules.items() for name in names.split()}

    raise AssertionError("strictreply/__init__.py lists its names in _MODULES")


def imports_of(module: str) -> Iterator[Import]:
    """Read every import of a module, also those inside functions."""
    for node, typing_only in statements(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        for target in targets(node, module):
            yield Import(module, target, typing_only)


@cache
def imports() -> list[Import]:
    """Return the imports of all modules.

    Reading them takes long, so collecting tests does not do it.
    """
    return [found for module in MODULES for found in imports_of(module)]


def internal() -> list[Import]:
    """Return the imports of other modules of the package."""
    return [
        found for found in imports() if found.target in MODULES and found.target != found.source
    ]


def test_the_root_holds_packages_only() -> None:
    """The root holds only ``__init__``, ``__main__`` and packages; each package has its height."""
    assert sorted({package_of(module) for module in MODULES}) == sorted(PACKAGES)
    assert sorted(path.name for path in PACKAGE.glob("*.py")) == ["__init__.py", "__main__.py"]


def test_private_modules_are_marked() -> None:
    """A module that users do not import begins with ``_``, or stands in a package that does."""
    packages = {f"strictreply.{package}" for package in PACKAGES}
    unmarked = {
        module for module in MODULES if not any(part.startswith("_") for part in module.split("."))
    }
    assert unmarked - packages <= PUBLIC
    assert set(MODULES) >= PUBLIC


OUTER = (
    "batch",
    "cli",
    "coordination",
    "integrations",
    "loop",
    "measuring",
    "pipeline",
    "testing",
)
"""The packages around the guard: what they need of another package is public there."""


def named_of_others(module: str) -> Iterator[str]:
    """Yield the modules of other packages that a module's imports name, as they are spelled."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        named: list[str] = []
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            named = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]

        for name in named:
            if name.startswith("strictreply.") and package_of(name) != package_of(module):
                yield name


def test_an_outer_package_imports_no_private_module_of_another() -> None:
    """What the command line, the kit, the loop, batches, measurements, agents and the integrations
    need of another package is public there, or stands in the extension API.
    """
    found = [
        (module, name)
        for module in MODULES
        if package_of(module) in OUTER
        for name in named_of_others(module)
    ]
    assert {package_of(module) for module, _ in found} == set(OUTER)
    assert [
        (module, name)
        for module, name in found
        if any(part.startswith("_") for part in name.split("."))
    ] == []


def test_the_extension_api_is_small() -> None:
    """``strictreply.core`` has at most 60 names; its modules are named for their subject."""
    core = import_module("strictreply.core")
    assert 0 < len(core.__all__) <= 60


def test_imports_only_go_downwards() -> None:
    """No package imports a higher one, and none at all for types; one method of Contract, which
    plays the loop, does so when it is called.
    """
    up = [
        found
        for found in internal()
        if HEIGHT[package_of(found.target)] > HEIGHT[package_of(found.source)]
    ]
    assert [(found.source, found.target, found.typing_only) for found in up] == [(*WAY_UP, False)]


MEMBERS = frozenset(
    {"arguments", "call_id", "choices", "content", "delta", "finish_reason", "function_call"}
    | {"input", "json_schema", "message", "messages", "output", "parallel_tool_calls"}
    | {"previous_response_id", "refusal", "role", "stream_options", "tool_call_id", "tool_calls"}
    | {"usage"}
)
"""Members of requests and replies of the APIs."""

WITHOUT_AN_API = (
    "contract/_channels",
    "contract/_contract",
    "contract/_judge",
    "contract/_early_stop",
)
"""Modules of contract/ that judge replies; of retry/, client/ and loop/ all do without an API."""


def members_read(tree: ast.Module) -> Iterator[str]:
    """Yield the texts that are looked up in mappings and objects."""
    for node in ast.walk(tree):
        looked: list[ast.expr] = []
        if isinstance(node, ast.Subscript):
            looked = [node.slice]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            looked = [node.left]
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if isinstance(node.func, ast.Name):
                called = node.func.id
            if called in {"get", "pop", "peek"}:
                looked = node.args

        for one in looked:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield one.value


def test_no_member_of_an_api_is_read_above_the_wires() -> None:
    """The judge, the loop of retries, the client and the tool loop know drafts and requests."""
    found: dict[str, set[str]] = {}
    count = 0
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        if name.startswith(("retry/", "client/", "loop/", *WITHOUT_AN_API)):
            count += 1
            read = {*MEMBERS.intersection(members_read(ast.parse(path.read_text("utf-8"))))}
            if read:
                found[name] = read

    assert count > 30
    assert found == {}
    assert [*members_read(ast.parse('a.get("role"), a["x"], peek(a, "usage"), "y" in a'))] != []


def test_the_packages_of_coordination_import_downwards() -> None:
    """Within coordination, too, a package imports only itself and those listed before it."""
    inside = "strictreply.coordination"
    floor = {
        f"{inside}.{package}".rstrip("."): height for height, package in enumerate(COORDINATION)
    }

    def height(module: str) -> int:
        return floor[".".join(module.split(".")[:3])]

    within = [
        found
        for found in internal()
        if found.source.startswith(inside) and found.target.startswith(inside)
    ]
    assert [found for found in within if height(found.target) > height(found.source)] == []
    assert {height(module) for module in MODULES if module.startswith(inside)} == set(
        floor.values()
    )


def cycle_in(found: Iterable[Import], joined: Collection[str] = ()) -> list[str]:
    """Return modules that import each other in a circle; none where there is no circle.

    The ``joined`` modules count as one.
    """
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for one in found:
        source, target = ("joined" if end in joined else end for end in (one.source, one.target))
        if source != target:
            graph.setdefault(source, set()).add(target)

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle

    return []


def test_no_import_cycles() -> None:
    """Modules import each other in no circle at run time, late imports included.

    For types alone the judge of a contract may name the contract that calls it, and that is all.
    """
    known = [found for found in internal() if (found.source, found.target) != WAY_UP]
    assert cycle_in(found for found in known if not found.typing_only) == []

    assert cycle_in(known, TYPE_CIRCLE) == []
    for module in TYPE_CIRCLE:
        assert cycle_in(known, TYPE_CIRCLE - {module}) != []


@pytest.mark.one_lane
def test_the_pure_packages_know_no_sdk() -> None:
    """Below the client nothing imports an HTTP library, an SDK or a terminal library, not even for
    types.
    """
    assert [
        found
        for found in imports()
        if package_of(found.source) in PURE and found.target.partition(".")[0] in OUTSIDE_THE_PURE
    ] == []


@pytest.mark.one_lane
def test_the_core_needs_openai_for_types_only() -> None:
    """Outside the programs, openai is imported under TYPE_CHECKING alone."""
    assert [
        found
        for found in imports()
        if found.target.partition(".")[0] == "openai"
        and not found.typing_only
        and package_of(found.source) not in RUNTIME_OPENAI
    ] == []


@pytest.mark.one_lane
def test_what_is_imported_is_declared() -> None:
    """Every third-party package that the sources name is a dependency in pyproject.toml, not the
    guest of another.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    declared = {re.split(r"[^A-Za-z0-9-]", requirement)[0] for requirement in wanted}
    tops = (
        {found.target.partition(".")[0] for found in imports()}
        - sys.stdlib_module_names
        - {"strictreply"}
    )
    assert {COMES_WITH.get(top, top).replace("_", "-") for top in tops} <= declared


def modules_after(statement: str) -> set[str]:
    """Return what a fresh interpreter has imported after a statement."""
    script = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_importing_the_library_imports_nothing_else() -> None:
    """``import strictreply`` loads none of its packages and nothing from outside the standard
    library.
    """
    loaded = modules_after("import strictreply")
    assert not [name for name in loaded if name.startswith("strictreply.")]
    outside = {name.partition(".")[0] for name in loaded - modules_after("pass")}
    assert outside <= {*sys.stdlib_module_names, "strictreply"}


def test_what_is_used_is_what_is_loaded() -> None:
    """Wrapping a client loads no SDK, and none of the pipeline, the tool loop and coordination."""
    loaded = modules_after(
        "from strictreply import wrap, tool, Contract, RetryPolicy, ReplyRejected"
    )
    assert not {name.partition(".")[0] for name in loaded} & OUTSIDE_THE_PURE
    assert not {"strictreply.pipeline", "strictreply.loop", "strictreply.coordination"} & loaded


def test_the_command_line_begins_without_what_one_command_needs() -> None:
    """Reading a command's arguments loads none of batches, the test kit and an event loop."""
    loaded = modules_after("import strictreply.cli._app")
    assert not {"strictreply.batch", "strictreply.testing", "asyncio", "openai"} & loaded


PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_page_names_modules_that_exist() -> None:
    """Each file that docs/architecture.md names is in the repository, or somewhere under the
    sources.
    """
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert not [
        name for name in named if not (ROOT / name).is_file() and not any(PACKAGE.rglob(name))
    ]


def test_the_page_has_the_packages_in_their_order() -> None:
    """A reader sees in the table which packages a package may import."""
    table = re.findall(r"^\| `(\w+)/` \|", PAGE, flags=re.MULTILINE)
    assert table == [name for name in PACKAGES if name not in {"", "__main__"}]


def test_what_is_to_be_added_goes_to_what_exists() -> None:
    """Each table, class, function and member to which the page sends a reader is in the code."""
    rows = PAGE.partition("## Where to add what")[2].partition("\n## ")[0]
    named = set(re.findall(r"`((?:[A-Za-z_]\w*\.)?[A-Za-z_]\w*)`", rows))
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    known = {
        word for path in sources for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 60
    assert [name for name in sorted(named) if not known.issuperset(name.split("."))] == []
