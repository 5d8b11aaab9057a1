"""Change single lines of the source, and run the tests that belong to each.

The lines are drawn by a seed over all packages. It works on a copy of the checkout as it was at the
start, and first runs there, without a mutant, all tests that it will need: where one fails, nothing
is counted. It prints each mutant with ``killed``, ``survived`` or ``timed out``. The tests that
killed are then run once more without a mutant: they must pass.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src", "strictreply")
SECONDS = 300
# what cannot be installed beside the rest is tested in an environment of its own
LANES = ("instructor", "litellm")
# what pytest ends with where all passed, and where there was none to run
PASSED = (0, 5)
OPPOSITES = [
    (ast.Eq, ast.NotEq),
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
]
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **dict(OPPOSITES),
    **{new: old for old, new in OPPOSITES},
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One expression of a file and the text that replaces it.

    Offsets are in bytes, as ``ast`` counts them.
    """

    path: Path
    node: ast.expr
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the source with the expression replaced."""
        lines = source.splitlines(keepends=True)
        starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
        begin = starts[self.node.lineno - 1] + self.node.col_offset
        end = starts[(self.node.end_lineno or 0) - 1] + (self.node.end_col_offset or 0)
        return source[:begin] + f"({self.text})".encode() + source[end:]

    def __str__(self) -> str:
        """Return place, old and new."""
        return f"{self.path}:{self.node.lineno}: {ast.unparse(self.node)}  ->  {self.text}"


def replacement(node: ast.AST) -> str | None:
    """Return what replaces a comparison, a boolean operation, a negation or a constant.

    None for anything else.
    """
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return ast.unparse(ast.Compare(left, [COMPARISONS[type(operator)]()], [right]))
        case ast.BoolOp(op=operator, values=values):
            opposite = ast.Or() if isinstance(operator, ast.And) else ast.And()
            return ast.unparse(ast.BoolOp(opposite, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ast.unparse(operand)
        case ast.Constant(value=bool() as value):
            return repr(not value)
        case ast.Constant(value=int() as value):
            return repr(value + 1)
        case _:
            return None


def mutants(path: Path, root: Path) -> Iterator[Mutant]:
    """Find every expression inside the functions of a file of a checkout that can be mutated.

    The values that the functions return are among them.
    """
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse((root / path).read_bytes())

    for function in (node for node in ast.walk(tree) if isinstance(node, functions)):
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        # Python 3.11 does not know where in the file a part of an f-string stands.
        strings = [node for node in nodes if isinstance(node, ast.JoinedStr)]
        formatted = {part for string in strings for part in ast.walk(string)}

        for node in (node for node in nodes if node not in formatted):
            if isinstance(node, ast.expr) and (text := replacement(node)) is not None:
                yield Mutant(path, node, text)
            elif isinstance(node, ast.Return):
                value = node.value
                if isinstance(value, ast.Call | ast.Name | ast.Attribute):
                    yield Mutant(path, value, "None")


def sample(root: Path, count: int, seed: int, under: list[str]) -> list[Mutant]:
    """Draw mutants of a checkout, from every package in turn and of one line at most once.

    ``under`` are the beginnings of the paths below the package from which alone they are drawn,
    from all of them together; none means all packages.
    """
    dice = random.Random(seed)  # noqa: S311 - a seed that repeats, no cryptography
    packages: dict[str, list[Mutant]] = {}

    for path in sorted((root / PACKAGE).rglob("*.py")):
        relative = path.relative_to(root)
        inside = str(relative.relative_to(PACKAGE))
        if under and not inside.startswith(tuple(under)):
            continue

        lines = {(mutant.path, mutant.node.lineno): mutant for mutant in mutants(relative, root)}
        package = "" if under else str(relative.parent)
        packages.setdefault(package, []).extend(lines.values())

    pools = [dice.sample(found, len(found)) for found in packages.values()]
    rounds = [
        pool[turn] for turn in range(max(map(len, pools))) for pool in pools if turn < len(pool)
    ]
    return rounds[:count]


def tests_of(path: Path, root: Path) -> list[Path]:
    """List the test files of a module in a checkout.

    They are those of its name or that import it, else those that import its package, else all.
    """
    named = []
    importing = []
    around = []
    module = ".".join(path.relative_to("src").with_suffix("").parts).removesuffix(".__init__")
    parent = module.rpartition(".")[0]

    for test in sorted((root / "tests").rglob("test_*.py")):
        source = test.read_text("utf-8")
        if path.stem.strip("_") in test.stem:
            named.append(test)
        elif f"{module} import" in source or f"import {module}\n" in source:
            importing.append(test)
        elif parent != "strictreply" and f"{parent} import" in source:
            around.append(test)

    package = root / "tests" / path.relative_to(PACKAGE).parts[0]
    whole = package if package.is_dir() else package.parent
    found = [*named, *importing] or around or sorted(whole.rglob("test_*.py"))
    return [test.relative_to(root) for test in found]


def fate_of(mutant: Mutant, copy: Path) -> tuple[str, str]:
    """Run tests on a copy with the mutant, and return its fate.

    It is killed (and by which test), survived, or timed out. First run the tests of the module, in
    its lane (``make environments`` has made it), then those of ``make quick``.
    """
    target = copy / mutant.path
    source = target.read_bytes()
    target.write_bytes(mutant.applied(source))

    lane = lane_of(mutant.path)
    tests = map(str, tests_of(mutant.path, copy))

    try:
        done = pytest_in(copy, ["-x", "-rfE", *tests], SECONDS, python_of(lane))
        if done.returncode in PASSED:
            done = pytest_in(copy, ["-x", "-rfE", "-n", "auto", "--quick"], SECONDS)
    except subprocess.TimeoutExpired:
        return "timed out", ""
    finally:
        target.write_bytes(source)

    if done.returncode in PASSED:
        return "survived", ""

    killer = None if lane else re.search(r"^(?:FAILED|ERROR) (\S+\.py)", done.stdout, re.MULTILINE)
    return "killed", killer[1] if killer else ""


def pytest_in(
    copy: Path, arguments: list[str], seconds: float | None, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run tests on the copy; when their time is over, they end with all that they started.

    A process of theirs that went on would take a processor from the tests of the next mutant.
    """
    command = [python, "-B", "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    with subprocess.Popen(
        command,
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            told, _ = run.communicate(timeout=seconds)
        except BaseException:
            os.killpg(run.pid, signal.SIGKILL)
            raise

    return subprocess.CompletedProcess(command, run.returncode, told)


def lane_of(path: Path) -> str:
    """Return the lane of a module, "" for the one that this tool runs in."""
    return next((lane for lane in LANES if lane in str(path)), "")


def python_of(lane: str) -> str:
    """Return the Python of a lane, which ``make environments`` has made."""
    return str(ROOT / f".venv-{lane}/bin/python") if lane else sys.executable


def refuse_unless_green(drawn: list[Mutant], copy: Path) -> None:
    """Run without a mutant all tests that mutants will be tried on, and end where one fails."""
    tests: dict[str, set[str]] = {}
    for path in {mutant.path for mutant in drawn}:
        tests.setdefault(lane_of(path), set()).update(map(str, tests_of(path, copy)))

    runs = [(python_of(lane), ["-n", "auto", *sorted(files)]) for lane, files in tests.items()]
    for python, arguments in [*runs, (sys.executable, ["-n", "auto", "--quick"])]:
        done = pytest_in(copy, ["-rfE", *arguments], None, python)
        if done.returncode not in PASSED:
            raise SystemExit(
                f"nothing is counted, these fail without a mutant:\n{done.stdout[-4000:]}"
            )


def main() -> None:
    """Print each mutant and its fate, then the share that was killed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument(
        "--only", default="", help="take of the sample only mutants whose line holds this text"
    )
    parser.add_argument(
        "--under",
        action="append",
        default=[],
        help="draw only from files whose path below the package begins so (may be repeated)",
    )
    parser.add_argument("--list", action="store_true", help="show the mutants, run nothing")

    given = parser.parse_args()
    killed = 0
    killers = set[str]()

    with tempfile.TemporaryDirectory() as folder:
        # a checkout that is edited meanwhile would be another one for each mutant
        copy = Path(folder, "checkout")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        drawn = sample(copy, given.count, given.seed, given.under)
        drawn = [mutant for mutant in drawn if given.only in str(mutant)]

        if given.list:
            print(*drawn, sep="\n")
            return

        refuse_unless_green(drawn, copy)

        for mutant in drawn:
            fate, killer = fate_of(mutant, copy)
            killed += fate == "killed"
            killers |= {killer} - {""}
            print(f"{fate:10}{mutant}", flush=True)

        print(f"{killed} of {len(drawn)} killed")
        if not killers:
            return

        control = pytest_in(copy, ["-n", "auto", *sorted(killers)], None)
        if control.returncode:
            raise SystemExit(
                f"without a mutant these fail too, so the count is wrong:\n{control.stdout[-2000:]}"
            )


if __name__ == "__main__":
    main()
