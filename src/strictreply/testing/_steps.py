"""The steps of a script: good replies and faults.

It also defines how an app can react to a malformed reply.
"""

from __future__ import annotations

import builtins
import json
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from keyword import iskeyword
from pathlib import Path
from types import FrameType, FunctionType, TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypeVar, cast, get_args

from pydantic_core import to_jsonable_python

import strictreply
from strictreply import Contract, Tool
from strictreply.core import JSON, Answer, Channel, JSONObject
from strictreply.core.tools import with_schema_rules
from strictreply.schema import Schema
from strictreply.testing._wire import Served, assistant, completion, native_call

ReplyPlace: TypeAlias = Literal["call", "union", "json", "prose"]
"""Where a reply is written: in a native call, or in the content as the union, JSON or text."""
Made = TypeVar("Made")

PROSE = "It is done."
MAX_REMEMBERED = 64  # compiled declarations in the cache


class NoExample(ValueError):
    """No good reply can be made from a schema.

    ``reason`` says why; the message also says what to give where ``args=`` is the way.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; give args=")
        self.reason = reason


@dataclass(frozen=True)
class Target:
    """One good reply, from which faults are made."""

    value: JSON
    """The arguments of ``tool``, or the answer when there is no tool."""
    place: ReplyPlace
    """Where the reply is written."""
    schema: Schema | None = None
    """The schema of the value; None for plain text."""
    tool: Tool | None = None
    """The tool that is called; None for an answer."""
    declared: object = field(default=str, repr=False)
    """The tool or the kind of answer as the test declared it."""
    given: bool = field(default=False, repr=False)
    """Whether the user gave the value; else it is an example."""

    @classmethod
    def of(cls, declared: object = None, *, place: ReplyPlace = "call", args: Any = None) -> Self:
        """Return the good reply of a tool, or with ``place="json"`` a structured answer.

        If nothing is declared, it is plain text.

        ``args`` are the good arguments or answer, as JSON or an instance; None for an example made
        from the schema. A tool's own check does not run, because it may need resources that a test
        does not have. Raises ContractError for a wrong declaration, ValueError when ``args`` do not
        fit; NoExample, a ValueError, when no example can be made.
        """
        if place not in get_args(ReplyPlace):
            places = ", ".join(get_args(ReplyPlace))
            raise ValueError(f"place must be one of {places}; got {place!r}")

        if declared is None and place in {"union", "json"}:
            what = "a tool"
            if place == "json":
                what = "what the answer must be, a type or a JSON Schema"
            raise ValueError(f"place={place!r} needs {what}; without one a reply is plain text")

        given = None if args is None else to_jsonable_python(args)
        if declared is None or place == "prose":
            if not isinstance(given, str | None):
                answer = "a structured one pass place='json' and the answer's type"
                raise ValueError(f"args= must be str for a plain-text answer; for {answer}")
            return cls(PROSE if given is None else given, "prose", given=given is not None)

        if place == "json":
            schema = _of(Answer.of, declared).schema
            if schema is None:
                raise ValueError(
                    "a plain-text answer is not JSON: pass neither its type nor place='json'"
                )

            value = _fitting(schema, given, "the answer")
            return cls(value, place, schema, None, declared, given is not None)

        tool = replace(_of(Tool.of, declared), check=None)
        value = _fitting(tool.parameters, given, tool.name)
        return cls(value, place, tool.parameters, tool, declared, given is not None)

    @cached_property
    def contract(self) -> Contract:
        """The strict contract for replies in this place."""
        if self.tool is None:
            answer = self.declared if self.place == "json" else str
            return Contract(answer=answer, dialects="strict")

        channel: Channel = "text" if self.place == "union" else "native"
        return Contract(tools=[self.tool], channel=channel, dialects="strict")

    @property
    def name(self) -> str:
        """The tool's name, empty for an answer."""
        return self.tool.name if self.tool else ""

    @cached_property
    def source(self) -> str:
        """The name of the tool or the answer's type in a program; empty for plain text."""
        return "" if self.place == "prose" else spelled(self.declared, tool=self.tool is not None)

    def code(self, code: str) -> str:
        """Return the code of a broken rule here: ``args.…`` is ``answer.…`` for an answer."""
        return code.replace("args.", "answer.", 1) if self.tool is None else code

    def around(self, value: JSON) -> JSON:
        """Put arguments or an answer into the union, if the reply is one."""
        return {"tool": self.name, "args": value} if self.place == "union" else value

    def text(self, value: JSON) -> str:
        """Write arguments or an answer as the model does: JSON text, or plain text."""
        if self.place == "prose":
            return str(value)
        return json.dumps(self.around(value), ensure_ascii=False)

    def completion(self, text: JSON) -> JSONObject:
        """Put a text where this reply is written: into a call's arguments or the content."""
        if self.place == "call":
            return completion(assistant(None, [native_call(self.name, text)]))
        return completion(assistant(text))

    @property
    def clean(self) -> JSONObject:
        """The completion without a fault."""
        return self.completion(self.text(self.value))

    def call(self, *words: str, place: bool = False) -> str:
        """Write the arguments of a Python call that makes this reply.

        They are the tool, ``words``, the place if ``place`` is true, and the user's own arguments.
        """
        spelt = [self.source] if self.source else []
        spelt += words

        if place and self.place != "prose":
            spelt.append(f"place={self.place!r}")
        if self.given:
            spelt.append(f"args={self.value!r}")

        return ", ".join(spelt)


def _of(make: Callable[[object], Made], declared: object) -> Made:
    """Compile a declaration.

    Functions, classes and tools are compiled once for all their faults.
    """
    known = isinstance(declared, FunctionType | type | Tool)
    return cast("Made", _compiled(make, declared)) if known else make(declared)


@lru_cache(maxsize=MAX_REMEMBERED)
def _compiled(make: Callable[[object], Made], declared: object) -> Made:
    return make(declared)


def _fitting(schema: Schema, given: JSON, name: str) -> JSON:
    value = schema.example() if given is None else given
    for issue in schema.check(value):
        if given is None:
            raise NoExample(f"no example could be made from the schema of {name}")
        raise ValueError(f"the arguments do not fit {name}: {issue.dotted}")

    return value


def spelled(declared: object, *, tool: bool = True) -> str:
    """Write a tool or an answer's type as Python source.

    It is a name in a module, or else a definition.
    """
    if isinstance(declared, type) or (
        isinstance(declared, FunctionType) and declared.__name__.isidentifier()
    ):
        return declared.__name__ if "<locals>" in declared.__qualname__ else declared.__qualname__

    if variable := _variable(_Same(declared)):
        return variable
    if not tool:
        return repr(declared)

    known = Tool.of(declared)
    options = {"extra": known.extra, "formats": known.formats}
    text = "".join(
        f", {word}={value!r}"
        for word, value in options.items()
        if value not in {"forbid", "assert"}
    )

    written = with_schema_rules(
        known, "schema", known.formats
    ).definition  # without the rules that the contract adds
    return f"Tool.from_openai({written!r}{text})" if text else repr(written)


class _Same:
    """An object as a key, compared by identity."""

    def __init__(self, value: object) -> None:
        self.held = value

    def __hash__(self) -> int:
        return id(self.held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.held is self.held


@lru_cache(maxsize=MAX_REMEMBERED)
def _variable(declared: _Same) -> str:
    """Return the name of an object in a loaded module; the last loaded modules come first.

    Empty if no module has it.
    """
    for module in reversed([*sys.modules.values()]):
        for name, value in [*getattr(module, "__dict__", {}).items()]:
            if value is declared.held:
                return str(name)

            if name.startswith("_"):
                continue

            # For unknown objects only type() is used: isinstance() could load a lazy object.
            kind: object = type(value)
            members: Iterable[tuple[object, object]]
            if kind is dict:
                members = [*cast("dict[object, object]", value).items()]
            elif kind is list or kind is tuple:
                members = enumerate(value)
            else:
                continue

            for key, member in members:
                if member is declared.held:
                    return f"{name}[{key!r}]"

    return ""


def keywords(args: Mapping[str, JSON]) -> str:
    """Write keyword arguments that follow another argument.

    Names that are not identifiers are written as a mapping.
    """
    named = {
        name: value for name, value in args.items() if name.isidentifier() and not iskeyword(name)
    }
    others = {name: value for name, value in args.items() if name not in named}
    words = "".join(f", {name}={value!r}" for name, value in named.items())
    return f"{words}, **{others!r}" if others else words


# Part of every text that a fault lets the model invent; it has no other source.
CANARY = "zq7x"


class Kind(StrEnum):
    """The part of a reply that is wrong."""

    JSON = "json"  # the text of the arguments or the answer is not strict JSON
    SHAPE = "shape"  # JSON, but not in the form of a reply
    TOOL = "tool"  # which tools are called, how often, and with which ids
    ARGS = "args"  # the arguments or the answer do not fit their schema
    ENVELOPE = "envelope"  # the response around the reply
    FINISH = "finish"  # how the reply ended
    TRANSPORT = "transport"  # the connection
    HTTP = "http"  # the HTTP response
    STREAM = "stream"  # server-sent events

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"{value!r} is not a kind of fault; the kinds are {', '.join(cls)}")


@dataclass(frozen=True, slots=True)
class Step:
    """The reply to one request."""

    name: str
    """Name of the step."""
    served: Served = field(repr=False)
    """The completion or HTTP response."""
    source: str
    """Python expression that makes the step again."""
    invented: tuple[str, ...] = field(default=(), repr=False)
    """Texts that only the model wrote.

    They must not be in a later prompt, except in the model's own turn.
    """
    after: Step | None = field(default=None, repr=False, kw_only=True)
    """The step that is served instead when a request ends with the result of this step's call.

    None serves the step itself again.
    """


@dataclass(frozen=True, slots=True)
class Fault(Step):
    """A step with an invalid reply."""

    kind: Kind = Kind.JSON
    """What the fault is about."""
    code: str = ""
    """The code that a strict contract reports.

    It is an issue's code (``args.type``), or the kind of a failure if there was no reply
    (``rate_limit``, ``connection``; see :class:`strictreply.retry._failures.Failure`).
    """
    place: ReplyPlace = "call"
    """Where the faulty reply is written."""
    at: str = ""
    """JSON Pointer of the fault in the arguments or the answer; empty for the whole."""
    needs: Mapping[str, JSON] = field(default_factory=dict[str, JSON], repr=False)
    """Request keywords that the fault needs; with others the reply is valid.

    An example is ``{"tool_choice": "required"}``.
    """
    clean: JSON = field(default=None, repr=False)
    """The good completion before the fault was made; None for a recorded reply."""
    api: str = ""
    """The only API that can have the fault, as for ``api=``; empty for all."""

    @property
    def channel(self) -> Channel:
        """The contract's channel that the faulty reply belongs to."""
        return "text" if self.place == "union" else "native"

    @property
    def id(self) -> str:
        """A name for a test's parameter: ``wrong_type`` or ``wrong_type[/limit]``."""
        return f"{self.name}[{self.at}]" if self.at else self.name


_FORMAL_KINDS = {Kind.ENVELOPE, Kind.HTTP, Kind.TRANSPORT}
# The beginnings of the codes of faults outside the data of a reply: an app that ignores such a
# fault acts on good arguments.
_FORMAL = (
    "call.id_",
    "call.malformed",
    "json.not_text",
    "envelope.",
    "connection",
    "timeout",
    "reply.role",
    "reply.content",
    "reply.empty",
    "reply.refusal",
)
_FOLDERS = (*map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), *strictreply.__path__)
_LIBRARY_FOLDERS = tuple(str(Path(folder).resolve()) for folder in _FOLDERS)


class Harm(StrEnum):
    """The harm that an app did with a malformed reply, the worst first."""

    ACTS = "acts on invalid data"
    ACCEPTS = "accepts silently"
    CRASHES = "crashes"
    LEAKS = "leaks"
    DEGRADES = "degrades"

    @property
    def rank(self) -> int:
        """Its position in the order of harm, 0 for the worst."""
        return [*Harm].index(self)

    @classmethod
    def accepting(cls, code: str, kind: Kind | None = None) -> Harm:
        """Return the harm of an app that accepts a reply with this code.

        ``kind`` is None for a reply that was not made as a fault.
        """
        is_name = kind is Kind.TOOL and code.startswith("shape.")  # the call around the arguments
        is_formal = kind in _FORMAL_KINDS or code.startswith(_FORMAL)
        return cls.ACCEPTS if is_name or is_formal else cls.ACTS


def named(kind: type[BaseException]) -> str:
    """Return the name of an exception's class with its module, if it is not built in."""
    if kind.__module__ in {builtins.__name__, "json.decoder"}:
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


class RaisedAt(NamedTuple):
    """Where an exception was raised.

    ``line`` (``file:line``) and ``function`` are the app's; ``frame`` is the innermost one of a
    library.
    """

    line: str
    function: str
    frame: str


def is_of_a_library(frame: FrameType) -> bool:
    """Report whether a frame is of an installed library or without a file, so not the app's."""
    path = Path(frame.f_code.co_filename).resolve()
    return not path.is_file() or str(path).startswith(_LIBRARY_FOLDERS)


def place_of(trace: TracebackType | None, passed_over: str = "") -> RaisedAt:
    """Find the place of an exception.

    Frames of the file ``passed_over`` count neither as the app's nor as a library's.
    """
    own = ""
    function = ""
    frames = dict[bool, str]()
    here = Path.cwd()

    for frame, line in traceback.walk_tb(trace):
        code = frame.f_code
        path = Path(frame.f_code.co_filename).resolve()
        module = str(frame.f_globals.get("__name__", ""))

        if not is_of_a_library(frame):
            own = f"{path.relative_to(here) if path.is_relative_to(here) else path.name}:{line}"
            function = code.co_qualname
            frames.clear()
        elif str(path) != passed_over:
            is_standard = module.partition(".")[0] in sys.stdlib_module_names
            frames[is_standard] = f"{module}:{code.co_qualname}:{line}"

    return RaisedAt(own, function, frames.get(False) or frames.get(True, ""))
