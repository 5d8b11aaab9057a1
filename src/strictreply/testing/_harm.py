"""What a malformed reply makes an app do, and where: the words that the plugin, the probe and the report share."""

from __future__ import annotations

import builtins
import sys
import sysconfig
import traceback
from enum import StrEnum
from pathlib import Path
from types import FrameType, TracebackType
from typing import NamedTuple

import strictreply
from strictreply.testing._steps import Kind

_FORMAL_KINDS = {Kind.ENVELOPE, Kind.HTTP, Kind.TRANSPORT}
_FORMAL = (
    *("call.id_", "call.malformed", "json.not_text", "envelope.", "connection", "timeout"),
    *("reply.role", "reply.content", "reply.empty", "reply.refusal"),
)
"""What the codes begin with of faults beside the data of a reply: whoever passes them over acts on good arguments."""

_PASSED_OVER = ".extra_key"
"""What the codes end with of faults whose data a careless reader does not even look at."""

_LIBRARY_FOLDERS = tuple(
    str(Path(folder).resolve())
    for folder in (*map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), *strictreply.__path__)
)


class Harm(StrEnum):
    """What an app did with a malformed reply that it should not have done, the worst first."""

    ACTS = "acts on invalid data"
    ACCEPTS = "accepts silently"
    CRASHES = "crashes"
    LEAKS = "leaks"
    DEGRADES = "degrades"

    @property
    def rank(self) -> int:
        """Its place in the order of harm, 0 for the worst."""
        return [*Harm].index(self)

    @classmethod
    def accepting(cls, code: str, kind: Kind | None = None) -> Harm:
        """Return what an app does that goes on with a reply of which a strict gate says this code.

        ``kind`` is that of the fault, None of a reply that nobody made.
        """
        is_name = kind is Kind.TOOL and code.startswith("shape.")  # the call around the arguments
        return cls.ACCEPTS if kind in _FORMAL_KINDS or is_name or code.startswith(_FORMAL) else cls.ACTS


def harm_order(code: str, kind: Kind) -> tuple[bool, bool]:
    """Return a key that sorts faults by what accepting them does: what is passed over comes after other data."""
    return Harm.accepting(code, kind) is Harm.ACCEPTS, code.endswith(_PASSED_OVER)


def named(kind: type[BaseException]) -> str:
    """Return an exception's class as it is imported; built-in ones by their name alone."""
    known = {builtins.__name__, "json.decoder"}
    return kind.__qualname__ if kind.__module__ in known else f"{kind.__module__}.{kind.__qualname__}"


class Place(NamedTuple):
    """Where an exception came from: the app's own line and function, and the innermost frame below of a library.

    The line is ``file:line``, the frame ``module:function:line``: of the standard library only where no other library
    is on the way. Each is empty where there is none.
    """

    line: str
    function: str
    frame: str


def is_of_a_library(frame: FrameType) -> bool:
    """Report whether a frame is not the app's own: of an installed library, or of no file."""
    path = Path(frame.f_code.co_filename).resolve()
    return not path.is_file() or str(path).startswith(_LIBRARY_FOLDERS)


def place_of(trace: TracebackType | None, passed_over: str = "") -> Place:
    """Find the place of an exception; frames of the file ``passed_over`` are neither the app's nor a library's."""
    own, function, frames, here = "", "", dict[bool, str](), Path.cwd()
    for frame, line in traceback.walk_tb(trace):
        code, path = frame.f_code, Path(frame.f_code.co_filename).resolve()
        module = str(frame.f_globals.get("__name__", ""))
        if not is_of_a_library(frame):
            own = f"{path.relative_to(here) if path.is_relative_to(here) else path.name}:{line}"
            function = code.co_qualname
            frames.clear()
        elif str(path) != passed_over:
            frames[module.partition(".")[0] in sys.stdlib_module_names] = f"{module}:{code.co_qualname}:{line}"
    return Place(own, function, frames.get(False) or frames.get(True, ""))
