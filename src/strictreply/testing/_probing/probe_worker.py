"""The program that runs the app under test in a process of its own.

For each line that it reads it calls the app once, and writes one line.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import importlib
import importlib.metadata
import inspect
import json
import os
import platform
import queue
import re
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from typing import Any, TextIO
from urllib.error import URLError

from strictreply.testing._probing.client_verdicts import AppWatch
from strictreply.testing._steps import named, place_of
from strictreply.testing.survival import Unusable

# The distributions whose versions a report names, when the app has imported them.
LIBRARIES = (
    "openai",
    "anthropic",
    "strictreply",
    "instructor",
    "pydantic-ai-slim",
    "langchain-core",
    "langchain-openai",
    "langchain-anthropic",
    "openai-agents",
    "litellm",
    "httpx",
    "httpx2",
    "pydantic",
)
# The modules of those whose name is not theirs.
_MODULES = {"pydantic-ai-slim": "pydantic_ai", "openai-agents": "agents"}
# Exceptions of Python's own that do say what happened between an app and a model.
_TELLING = (TimeoutError, ConnectionError, HTTPException, URLError, SSLError)
# What differs from run to run: where objects stand in memory, and the ids of the calls that were
# served.
_PASSING = re.compile(r" at 0x[0-9a-fA-F]+|\bcall_[0-9]+\b")


MAX_WORDS = 200  # characters of an exception that ended an import


class App:
    """A callable of the user's, sync or async, called again and again in one event loop."""

    def __init__(
        self, function: Callable[..., object], base_url: str, clean: tuple[type[BaseException], ...]
    ) -> None:
        """Pass the base URL when a parameter has no default, or is named for it.

        Raises Unusable when the callable needs more.
        """
        self._clean = clean
        self._loop = asyncio.Runner()
        self._call: Callable[[], Any] = lambda: function(base_url)

        try:
            parameters = list(inspect.signature(function).parameters.values())
        except ValueError:  # some callables written in C tell nothing
            return

        several = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        needed = [one for one in parameters if one.default is one.empty and one.kind not in several]
        if len(needed) > 1 or any(one.kind is one.KEYWORD_ONLY for one in needed):
            names = ", ".join(one.name for one in needed)
            raise Unusable(f"it must take the base URL or no arguments, not {names}")

        if not needed and not (parameters and parameters[0].name == "base_url"):
            self._call = function

    def close(self) -> None:
        """End the event loop."""
        self._loop.close()

    def behaviour(self, *, detailed: bool) -> dict[str, Any]:
        """Call the app once, and return the members of its Behaviour.

        With ``detailed`` they include an exception's traceback.
        """
        try:
            value = self._call()
            if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
                value = self._loop.run(_finished(value))

            if isinstance(value, Iterator):
                value = list(value)
        except BaseException as error:  # noqa: BLE001
            # Whatever comes out of the app is its behaviour.
            at, _, frame = place_of(error.__traceback__, str(Path(__file__).resolve()))
            words = f"{named(type(error))} at {at}" if at else named(type(error))
            seen = {"outcome": "crashed", "frame": frame}
            if is_clean(error, self._clean):
                seen = {"outcome": "clean", "frame": ""}
            return seen | {"told": words, "traceback": _trace(error) if detailed else ""}

        word = "None" if value is None else type(value).__name__
        return {"outcome": "accepted", "told": word, "digest": digest(value)}


async def _finished(value: object) -> object:
    """Await anything awaitable, as a runner takes coroutines only, and read a stream to its end."""
    if inspect.isawaitable(value):
        value = await value
    return [item async for item in value] if isinstance(value, AsyncIterator) else value


def is_clean(error: BaseException, clean: tuple[type[BaseException], ...]) -> bool:
    """Report whether an exception was made to state that a call failed.

    ``clean`` are the types of which the user vouches that they were.
    """
    if isinstance(error, clean):
        return True
    if isinstance(error, BaseExceptionGroup):
        return all(is_clean(inner, clean) for inner in error.exceptions)
    if isinstance(error, _TELLING):
        return True
    return type(error).__module__.partition(".")[0] not in sys.stdlib_module_names


def digest(value: object) -> str:
    """Hash a value so that equal ones are recognised.

    Memory addresses and the ids of served calls make no difference.
    """
    try:
        text = json.dumps(value, default=repr, sort_keys=True)
    except Exception:  # noqa: BLE001 - whatever an app returns may refuse to be written
        text = type(value).__name__
    return hashlib.sha256(_PASSING.sub("", text).encode("utf-8", "surrogatepass")).hexdigest()


def _trace(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        if trace.tb_next is None:
            break
        trace = trace.tb_next

    return "".join(traceback.format_exception(type(error), error, trace))[-4_000:]


def load(source: str) -> Any:
    """Import ``module:attribute``, something callable.

    Raises Unusable, with the reason and what to do, when that does not work.
    """
    module, _, attribute = source.partition(":")
    try:
        loaded = importlib.import_module(module)
    except BaseException as error:  # an import may also end in SystemExit
        raise Unusable(_not_imported(module, error)) from error

    names = [name for name in vars(loaded) if callable(getattr(loaded, name))]
    near = difflib.get_close_matches(attribute, names, 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; pass the name of a callable"
    if not hasattr(loaded, attribute):
        raise Unusable(f"the module {module} has no {attribute}{hint}")

    found = getattr(loaded, attribute)
    if not callable(found):
        kind = type(found).__name__
        raise Unusable(f"{attribute} of {module} is of type {kind}, which cannot be called{hint}")
    return found


def _not_imported(module: str, error: BaseException) -> str:
    """Report on one line what an import ended with, and what to do."""
    at = place_of(error.__traceback__, str(Path(__file__).resolve())).line
    lines = str(error).splitlines() or [""]
    words = f"importing {module} raised {named(type(error))}{f' at {at}' if at else ''}"
    words += f": {lines[0][:MAX_WORDS]}" if lines[0] else ""

    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and (module == missing or module.startswith(f"{missing}.")):
        return f"{words}; run this in the folder that holds {missing}, or set PYTHONPATH"
    if missing is not None:
        return f"{words}; install it in the environment of strictreply"
    return f"{words}; see it with: python -c 'import {module}'"


def load_exception(source: str) -> type[BaseException]:
    """Import ``module:Class``, an exception; raises Unusable like :func:`load`."""
    try:
        found = load(source)
    except Unusable as unusable:
        raise Unusable(f"--clean {source}: {unusable}") from unusable

    if not (isinstance(found, type) and issubclass(found, BaseException)):
        raise Unusable(f"--clean {source}: it must be the class of an exception")
    return found


def versions() -> dict[str, str]:
    """Return the versions of Python and of the known libraries that are imported by now."""
    found = {"Python": platform.python_version()}
    for name in LIBRARIES:
        module = _MODULES.get(name, name.replace("-", "_"))
        if module in sys.modules:
            found[name] = importlib.metadata.version(name)
    return found


def _answers(
    commands: TextIO, watch: AppWatch, source: str, base_url: str, clean: list[str]
) -> Iterator[dict[str, Any]]:
    """Answer each command as it comes, first whether the app can be called.

    The process ends when the commands end.
    """
    try:
        app = App(load(source), base_url, tuple(map(load_exception, clean)))
    except Unusable as unusable:
        yield {"unusable": str(unusable)}
        return

    yield {"ready": True}
    received: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in commands:
            received.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()

    while True:
        command = json.loads(received.get())
        detailed = bool(command["detailed"])
        watch.begin(command["tools"])

        answer = app.behaviour(detailed=detailed) | {"skipped": watch.skipped.seconds}
        answer |= {"places": watch.places}
        if detailed:
            answer |= {"versions": versions()}
        yield answer


def main() -> None:
    """Serve until there is nobody left to serve.

    What the app prints must not be read as an answer.
    """
    commands = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)

    source, base_url, *clean = sys.argv[1:]
    lock = threading.Lock()

    def tell(answer: dict[str, Any]) -> None:
        with lock:
            answers.write(f"{json.dumps(answer)}\n")
            answers.flush()

    # At once: the app may not come back.
    watch = AppWatch(lambda name, at: tell({"ran": [name, at]}))
    with watch.open():
        for answer in _answers(commands, watch, source, base_url, clean):
            tell(answer)


if __name__ == "__main__":
    main()
