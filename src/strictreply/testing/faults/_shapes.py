"""Faults of the form: JSON, and read without complaint, but not what a call, a union or an answer looks like.

That the arguments break their own schema is another kind of fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeAlias

from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Place, Target
from strictreply.testing._wire import assistant, completion, native_call
from strictreply.testing.faults._catalogue import Entry, Spoiled
from strictreply.testing.faults._making import entry_of, spoiled
from strictreply.testing.faults._writing import written
from strictreply.values._json import JSON, JSONObject

_Form: TypeAlias = Callable[[JSON], JSON]
"""Gives arguments or an answer another form; the form that it has when there is nothing to spoil."""


def _arguments_fault(function: _Form) -> Entry:
    """Write other JSON than an object for the arguments, in a call and in the union."""

    def make(target: Target) -> Iterator[Spoiled]:
        """Write it where the arguments stand."""
        yield spoiled(target.completion(target.text(function(target.value))))

    return entry_of(function, make, Kind.SHAPE, "shape.wrong_type", ("call", "union"))


def _call_fault(function: Callable[[JSONObject], JSONObject]) -> Entry:
    """Give the function of a native call another member than the text of its arguments."""

    def make(target: Target) -> Iterator[Spoiled]:
        """Change the function of the one call."""
        call = native_call(target.name, target.text(target.value))
        yield spoiled(completion(assistant(None, [call | {"function": function(call["function"])}])))

    return entry_of(function, make, Kind.SHAPE, "json.not_text", ("call",))


def _union_fault(code: str) -> Callable[[Callable[[str, JSON], JSON]], Entry]:
    """Write other JSON for the union, given the tool's name and its arguments."""

    def decorate(function: Callable[[str, JSON], JSON]) -> Entry:
        """Make the entry of that JSON."""

        def make(target: Target) -> Iterator[Spoiled]:
            """Write it as the content."""
            yield spoiled(target.completion(written(function(target.name, target.value))))

        return entry_of(function, make, Kind.SHAPE, code, ("union",))

    return decorate


def _answer_fault(code: str) -> Callable[[_Form], Entry]:
    """Write other JSON for a structured answer."""

    def decorate(function: _Form) -> Entry:
        """Make the entry of that JSON."""

        def make(target: Target) -> Iterator[Spoiled]:
            """Write it as the content."""
            yield spoiled(target.completion(written(function(target.value))))

        return entry_of(function, make, Kind.SHAPE, code, ("json",))

    return decorate


def _content_fault(*places: Place) -> Callable[[Callable[[str], JSON]], Entry]:
    """Put other JSON than a text into the content of the message."""

    def decorate(function: Callable[[str], JSON]) -> Entry:
        """Make the entry of that JSON."""

        def make(target: Target) -> Iterator[Spoiled]:
            """Put it where the text stands."""
            yield spoiled(target.completion(function(target.text(target.value))))

        return entry_of(function, make, Kind.SHAPE, "reply.content", places)

    return decorate


# Arguments


@_arguments_fault
def positional_arguments(args: JSON) -> JSON:
    """The arguments are an array of their values, without their names."""
    return list(args.values()) if isinstance(args, dict) else args


@_arguments_fault
def arguments_in_array(args: JSON) -> JSON:
    """The arguments are an object inside an array."""
    return [args]


@_arguments_fault
def double_encoded_arguments(args: JSON) -> JSON:
    """The arguments are JSON text inside a JSON string."""
    return json.dumps(args)


@_arguments_fault
def string_arguments(_: JSON) -> JSON:
    """The arguments are a string, as if there were but one."""
    return f"the {CANARY}"


@_arguments_fault
def number_arguments(_: JSON) -> JSON:
    """The arguments are a number."""
    return 42


@_arguments_fault
def boolean_arguments(_: JSON) -> JSON:
    """The arguments are true."""
    return True


@_arguments_fault
def null_arguments(_: JSON) -> JSON:
    """The arguments are null, as models write it for a tool that needs none."""
    return None


@_call_fault
def arguments_not_encoded(function: JSONObject) -> JSONObject:
    """The arguments of a native call are an object, not its text."""
    return function | {"arguments": json.loads(function["arguments"])}


@_call_fault
def arguments_in_parts(function: JSONObject) -> JSONObject:
    """The arguments of a native call are a list of text parts."""
    return function | {"arguments": [{"type": "text", "text": function["arguments"]}]}


@_call_fault
def arguments_member_null(function: JSONObject) -> JSONObject:
    """A native call has null where the text of its arguments belongs."""
    return function | {"arguments": None}


@_call_fault
def arguments_member_missing(function: JSONObject) -> JSONObject:
    """A native call has no member for its arguments."""
    return {"name": function["name"]}


# The union


@_union_fault("shape.missing_key")
def missing_tool(_: str, args: JSON) -> JSON:
    """The union names no tool."""
    return {"args": args}


@_union_fault("shape.missing_key")
def missing_args(name: str, _: JSON) -> JSON:
    """The union has no arguments."""
    return {"tool": name}


@_union_fault("shape.missing_key")
def empty_union(_name: str, _args: JSON) -> JSON:
    """The union is an empty object."""
    return {}


@_union_fault("shape.missing_key")
def bare_arguments(_: str, args: JSON) -> JSON:
    """The arguments stand alone, without the union around them."""
    return args


@_union_fault("shape.missing_key")
def union_keys_in_other_case(name: str, args: JSON) -> JSON:
    """The keys of the union are capitalised."""
    return {"Tool": name, "Args": args}


@_union_fault("shape.extra_key")
def remark_beside_call(name: str, args: JSON) -> JSON:
    """A remark of the model's own stands beside the tool and its arguments."""
    return {"tool": name, "args": args, f"note_{CANARY}": f"this is the {CANARY}"}


@_union_fault("shape.extra_key")
def flat_arguments(name: str, args: JSON) -> JSON:
    """The arguments stand beside the tool's name, not under their key."""
    return {"tool": name, **(args if isinstance(args, dict) and args else {CANARY: CANARY})}


@_union_fault("shape.extra_key")
def name_and_arguments(name: str, args: JSON) -> JSON:
    """The union has the keys of another dialect: name and arguments, as in the Hermes format."""
    return {"name": name, "arguments": args}


@_union_fault("shape.extra_key")
def name_and_parameters(name: str, args: JSON) -> JSON:
    """The union has the keys of another dialect: name and parameters, as Llama writes them."""
    return {"name": name, "parameters": args}


@_union_fault("shape.extra_key")
def native_call_as_text(name: str, args: JSON) -> JSON:
    """The content spells a message with tool_calls."""
    return {"tool_calls": [native_call(name, written(args))]}


@_union_fault("shape.extra_key")
def tool_as_key(name: str, args: JSON) -> JSON:
    """The tool's name is the key of its arguments."""
    return {name: args}


@_union_fault("shape.extra_key")
def union_in_response(name: str, args: JSON) -> JSON:
    """The union stands under a key of its own."""
    return {"response": {"tool": name, "args": args}}


@_union_fault("shape.extra_key")
def schema_echo(name: str, args: JSON) -> JSON:
    """The model fills in a JSON Schema, instead of what it describes."""
    return {"type": "object", "properties": {"tool": name, "args": args}}


@_union_fault("shape.not_object")
def union_in_array(name: str, args: JSON) -> JSON:
    """The union stands in an array."""
    return [{"tool": name, "args": args}]


@_union_fault("shape.wrong_type")
def tool_as_object(name: str, args: JSON) -> JSON:
    """The tool is an object with a name, not the name."""
    return {"tool": {"name": name}, "args": args}


@_union_fault("shape.tool_and_answer")
def tool_and_answer(name: str, args: JSON) -> JSON:
    """The model calls a tool and answers at once."""
    return {"tool": name, "args": args, "answer": f"it is {CANARY}"}


@_union_fault("shape.tool_and_answer")
def nulls_beside_answer(_name: str, _args: JSON) -> JSON:
    """An answer stands beside a tool and arguments of null, as if every key had to be filled in."""
    return {"tool": None, "args": None, "answer": f"it is {CANARY}"}


@_union_fault("shape.empty")
def empty_answer(_name: str, _args: JSON) -> JSON:
    """The answer in the union is an empty text."""
    return {"answer": ""}


@_union_fault("shape.wrong_type")
def null_answer(_name: str, _args: JSON) -> JSON:
    """The answer in the union is null."""
    return {"answer": None}


@_union_fault("shape.wrong_type")
def answer_as_object(_name: str, _args: JSON) -> JSON:
    """The answer in the union is an object where a text is expected."""
    return {"answer": {"text": f"it is {CANARY}"}}


# A structured answer


@_answer_fault("answer.extra_key")
def answer_in_object(answer: JSON) -> JSON:
    """The answer stands under a key of its own."""
    return {"answer": answer}


@_answer_fault("answer.type")
def answer_in_array(answer: JSON) -> JSON:
    """The answer stands in an array."""
    return [answer]


@_answer_fault("answer.type")
def double_encoded_answer(answer: JSON) -> JSON:
    """The answer is JSON text inside a JSON string."""
    return json.dumps(answer)


# The content of the message


@_content_fault("union", "json", "prose")
def content_in_parts(text: str) -> JSON:
    """The content is a list of parts, as in a request."""
    return [{"type": "text", "text": text}]


@_content_fault("union", "json")
def content_not_encoded(text: str) -> JSON:
    """The content is JSON, not its text."""
    return json.loads(text)  # type: ignore[no-any-return]  # a text that was just written


@_content_fault("union", "json", "prose")
def content_number(_: str) -> JSON:
    """The content is a number."""
    return 42
