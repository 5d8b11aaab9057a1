"""What users of other libraries write by habit, and what to write instead.

An unknown keyword or name raises an error that suggests the right one: the tables below translate
words of other libraries, and a misspelled word gets the nearest name that exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import wraps
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

Kind = TypeVar("Kind", bound=type)

_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")
_NEAR = 0.75  # of difflib: "temprature" is near "temperature", "mode" is not near "model_name"

_ANSWER = "answer=, the type of a direct answer"
_ANSWER_OF_CALL = "contract=Contract(answer=…), or answer= of wrap()"
_MESSAGES = "messages=, a text or a list of chat messages"
_SYSTEM = "a system message at the start of messages="
_RETRIES = "max_retries=, the number of corrections after the first request"
_DEADLINE = "deadline=, the seconds for the whole call"
_TOKENS = "policy=RetryPolicy(max_tokens_total=…)"
_CALLED = "pass it to the call: reply(…), create(…)"
_ITERATIONS = "loop=LoopPolicy(max_iterations=…)"
_WATCHER = "on_attempt=, which is called with every attempt"
_CHECK = "a check of the tool or type: Tool.from_function(…, check=…), or a pydantic validator"


def _each(meant: str, *names: str) -> dict[str, str]:
    return _told(f"did you mean {meant}?", *names)


def _told(words: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, words)


IN_WRAP: Mapping[str, str] = MappingProxyType(
    _each(_ANSWER, "response_model", "response_format", "output_type", "result_type", "text_format")
    | _each(_ANSWER, "output_schema", "response_schema", "answer_type", "schema", "output_cls")
    | _each(_ANSWER, "structured_output")
    | _each("policy=RetryPolicy(models=[…])", "fallbacks", "fallback_models")
    | _each(_RETRIES, "retries", "max_attempts", "num_retries", "output_retries", "tool_retries")
    | _each(_DEADLINE, "timeout", "request_timeout")
    | _each("tools=, a list", "tool", "functions", "function", "toolsets", "function_tools")
    | _each("channel=, native or text", "output_mode")
    | _each(_SYSTEM, "system_prompt", "system", "instructions")
    | _told(_CALLED, "model", "messages", "input", "temperature", "max_tokens", "stream")
    | _told(_CALLED, "tool_choice", "parallel_tool_calls", "top_p", "reasoning_effort")
    | _each(_TOKENS, "usage_limits", "max_budget", "budget")
    | _each("policy=, a RetryPolicy", "retry", "retry_policy", "stop", "wait")
    | _each(_WATCHER, "hooks", "callbacks", "callback", "event_handler")
    | _each(_CHECK, "validators", "output_validator", "validation_context", "guards", "check")
    | _each("context= of run()", "deps", "deps_type")
)
"""Keywords that are given to ``wrap`` or ``Contract``, and what was meant."""

IN_CALLS: Mapping[str, str] = MappingProxyType(
    _each(_ANSWER_OF_CALL, "response_model", "output_type", "result_type", "text_format")
    | _each(_ANSWER_OF_CALL, "output_schema", "response_schema", "answer_type", "output_cls")
    | _each(_RETRIES, "retries", "max_attempts", "num_retries", "output_retries")
    | _each(_MESSAGES, "user_prompt", "message", "message_history", "history")
    | _each(_SYSTEM, "system_prompt", "system")
    | _each("channel= of wrap(), native or text", "output_mode")
    | _each("mode= of wrap() to observe; channel= of wrap() for native or text", "mode")
    | _each("pass it to wrap()", "enforce", "observe", "ledger")
    | _each(_CHECK, "validation_context", "validators", "output_validator")
    | _each("on_attempt= of wrap(), which is called with every attempt", "hooks", "callbacks")
    | _each(_TOKENS, "usage_limits")
    | _each("context= of run()", "deps", "context")
    | _each(_DEADLINE, "request_timeout")
    | _each("tools=, a list", "toolsets")
)
"""Keywords that are given to one call, and what was meant."""

IN_RUNS: Mapping[str, str] = MappingProxyType(
    _each(_ITERATIONS, "max_turns", "max_iterations", "max_steps", "recursion_limit")
    | _each("after=, an earlier run", "message_history", "previous_run")
    | _each("sessions=, a store of runs", "checkpointer", "session_store", "session")
    | _each("loop=LoopPolicy(max_tokens_total=…)", "usage_limits")
    | _each("context=, which tools take as a parameter", "deps", "run_context")
    | _each("agent=, an AgentContext", "starting_agent")
    | _each("pass it to wrap()", "mode", "enforce", "observe", "ledger")
)
"""Keywords that are given to ``run`` and its twins, and what was meant."""

IN_POLICIES: Mapping[str, str] = MappingProxyType(
    _each("max_retries", "retries", "max_attempts", "attempts", "tries", "num_retries", "max_tries")
    | _each("deadline", "timeout", "max_time", "max_seconds", "total_timeout")
    | _each("stop, a tenacity stop", "stop_after_attempt", "stop_after_delay")
    | _each("wait, a tenacity wait", "backoff", "delay", "retry_delay", "sleep", "jitter")
    | _each("max_tokens_total", "max_tokens", "token_budget", "total_tokens_limit", "usage_limits")
    | _each("max_cost, with price", "budget", "max_budget", "cost")
    | _each("max_iterations", "max_turns", "max_steps", "max_iter", "recursion_limit", "iterations")
    | _each("concurrency", "max_concurrency", "max_workers", "parallel")
)
"""Keywords that are given to a policy or to limits, and what was meant."""

IN_TOOLS: Mapping[str, str] = MappingProxyType(
    _each("description", "desc", "doc", "docstring", "help")
    | _each("name", "name_override", "title", "tool_name")
    | _each("check, a function of the arguments", "validator", "args_validator", "validate")
    | _each("timeout", "tool_timeout", "deadline")
    | _each("max_retries= of wrap(), which retries invalid calls", "retries", "max_retries")
    | _each("needs_approval", "requires_approval", "approval")
    | _each("extra", "additional_properties", "allow_extra")
)
"""Keywords that are given to a declared tool, and what was meant."""

_MODEL = 'request={"model": …}'
IN_AGENTS: Mapping[str, str] = MappingProxyType(
    _each("instruction", "prompt", "system_prompt", "instructions", "system_message")
    | _each(_MODEL, "model", "model_name", "temperature", "max_tokens")
    | _each("client, which wrap() returns", "llm", "chat_model", "openai_client")
    | _each("goal", "description", "role")
    | _each("edges of the topology", "handoffs", "handoff_tools")
)
"""Keywords that are given to an agent of a graph, and what was meant."""

_WRAP = "wrap(client, tools=[…], answer=…)"
NAMES: Mapping[str, str] = MappingProxyType(
    _each(_WRAP, "from_openai", "patch", "apatch", "from_provider", "from_litellm", "instrument")
    | _each(_WRAP, "OpenAI", "AsyncOpenAI", "Client", "AsyncClient", "Guard", "guard", "Instructor")
    | _each("run(client, …)", "Agent", "Runner", "AgentRunner", "create_agent", "agent")
    | _each("ToolError", "ModelRetry", "UnexpectedModelBehavior", "ToolException")
    | _each("tool", "function_tool", "tool_plain", "Function", "FunctionTool", "StructuredTool")
    | _each("ReplyRejected", "InstructorRetryException", "ValidationError", "OutputParserException")
    | _each("ReplyRejected", "IncompleteOutputException", "MaxTurnsExceeded")
    | _each("stream() of a wrapped client", "StreamedRunResult", "StreamedResponse")
    | _each("channel= of wrap()", "Mode", "PromptedOutput", "NativeOutput", "ToolOutput")
    | _each("a pydantic model, as answer= or in tools=", "BaseModel", "OpenAISchema", "Schema")
    | _each("RetryPolicy", "Retrying", "AsyncRetrying", "Retry", "Policy", "UsageLimits")
)
"""Names that are looked for in the package, and what was meant."""

ON_CLIENTS: Mapping[str, str] = MappingProxyType(
    _each("exchange(…) of the wrapped client: a reply and its completion", "create_with_completion")
    | _each("stream(…) of the wrapped client, whose events hold partial answers", "create_partial")
    | _each("answer(…) of the wrapped client, with wrap(answer=list[…])", "create_iterable")
    | _each("strictreply.run(client, …)", "run", "run_sync", "run_stream", "arun", "invoke")
    | _each("reply(…) of the wrapped client", "ask", "call", "complete", "generate", "predict")
    | _each("wrap(client, tools=[…])", "bind_tools", "with_structured_output", "as_structured_llm")
)
"""Attributes that are looked for on a wrapped client, and what was meant."""

_TEXT_OF_REPLY = "answer, which a DirectAnswer has: case DirectAnswer(answer=text)"
ON_REPLIES: Mapping[str, str] = MappingProxyType(
    _each(_TEXT_OF_REPLY, "content", "text", "output_text", "output", "data", "parsed", "message")
    | _each("exchange(…).completion, the SDK's own object", "choices", "usage", "id", "model")
    | _each("args, which are typed", "arguments", "input", "kwargs", "function", "parameters")
    | _each("tool, the name of the tool", "name", "tool_name")
    | _each("calls, which every reply has", "tool_calls")
)
"""Attributes that are looked for on a reply, and what was meant."""

ON_RUNS: Mapping[str, str] = MappingProxyType(
    _each("answer", "output", "data", "result", "final_output", "content", "text", "final_answer")
    | _each("transcript", "messages", "history", "all_messages", "new_messages", "to_input_list")
    | _each("replies, the accepted ones, or attempts", "new_items", "steps", "raw_responses")
    | _each("replies[-1].reply", "reply", "last_message")
)
"""Attributes that are looked for on a run, and what was meant."""


def meant_by(name: str, table: Mapping[str, str], known: Iterable[str] = ()) -> str:
    """Return ``; did you mean …?`` for an unknown name; empty if no name is similar."""
    if name in table:
        return f"; {table[name]}"

    near = get_close_matches(name, list(known), 1, _NEAR)
    if near:
        return f"; did you mean {near[0]}?"

    others = get_close_matches(name, list(table), 1, _NEAR)  # "retrys" is near "retries"
    return f"; {table[others[0]]}" if others else ""


def refuse_unknown(
    place: str, given: Iterable[str], table: Mapping[str, str], known: Iterable[str]
) -> None:
    """Raise TypeError for the first unknown keyword, with the keyword that was meant."""
    known = list(known)
    for name in given:
        if name not in known:
            meant = meant_by(name, table, known)
            takes = "" if meant else f"; it takes {', '.join(known)}"
            raise TypeError(f"{place} got an unexpected keyword argument {name!r}{meant}{takes}")


def refuse_foreign(
    place: str, given: Iterable[str], table: Mapping[str, str], own: Iterable[str] = ()
) -> None:
    """Raise TypeError for a keyword of another library, or one that resembles an ``own`` keyword.

    Any other keyword may be the API's own.
    """
    for name in given:
        near = get_close_matches(name, list(own), 1, _NEAR)
        if name in table or (near and name not in own):
            meant = meant_by(name, table, own)
            raise TypeError(f"{place} got an unexpected keyword argument {name!r}{meant}")


def _names_one(words: str, known: Iterable[str]) -> bool:
    """Return whether a hint contains a known keyword."""
    return not set(re.findall(r"\w+", words)).isdisjoint(known)


def with_meant(error: TypeError, table: Mapping[str, str], known: Iterable[str]) -> TypeError:
    """Add what was meant to the error of an unknown keyword; return any other error unchanged."""
    found = _UNEXPECTED.search(str(error))
    if found is None or "Did you mean" in str(error):
        return error

    meant = meant_by(found[1], table, known)
    return TypeError(f"{error}{meant}") if meant else error


def no_attribute(kind: str, name: str, table: Mapping[str, str], known: Iterable[str]) -> NoReturn:
    """Raise AttributeError for an unknown name, with the name that was meant."""
    # no hint for private names: Python and its tools look them up on every object
    meant = "" if name.startswith("_") else meant_by(name, table, known)
    raise AttributeError(f"{kind} has no attribute {name!r}{meant}", name=name)


def with_hints(table: Mapping[str, str]) -> Callable[[Kind], Kind]:
    """Make the instances of a class suggest the right attribute for an unknown one.

    Type checkers do not see this, so an unknown attribute is still an error to them.
    """

    def decorated(kind: Kind) -> Kind:
        made: Any = kind
        known = [name for name in dir(made) if not name.startswith("_")]

        def getattr_(self: object, name: str) -> NoReturn:
            no_attribute(f"{type(self).__name__!r} object", name, table, known)

        made.__getattr__ = getattr_
        return kind

    return decorated


def helpful(table: Mapping[str, str]) -> Callable[[Kind], Kind]:
    """Make a dataclass suggest the right keyword for an unknown one."""

    def decorated(kind: Kind) -> Kind:
        made: Any = kind
        known = [field.name for field in fields(made)]
        fitting = {name: words for name, words in table.items() if _names_one(words, known)}
        constructor = made.__init__

        @wraps(constructor)
        def init(self: object, /, *values: object, **keywords: object) -> None:
            try:
                constructor(self, *values, **keywords)
            except TypeError as error:
                meant = with_meant(error, fitting, known)
                if meant is error:
                    raise
                raise meant from None

        made.__init__ = init
        return kind

    return decorated
