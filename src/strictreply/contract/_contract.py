"""What a reply must be, declared once: tools, the answer, the channel and how strict to be."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, TypedDict

from strictreply.contract._answer import FINAL_ANSWER, Answer
from strictreply.contract._checks import Check, Checked, aperform_check, check_of, perform_check
from strictreply.contract._driving import adrive, drive
from strictreply.contract._judge import judge
from strictreply.contract._judge_text import judge_text
from strictreply.contract._terms import Terms, by_name
from strictreply.contract._tool import Tool
from strictreply.reading._decoding import decode
from strictreply.values._errors import ContractError
from strictreply.values._json import AnswerStyle, CallsAsText, Channel, Extra, Extraction, Formats
from strictreply.values._limits import DEFAULT_LIMITS, Limits, Work
from strictreply.values._replies import Invalid, Verdict

_CHANNELS = ("native", "text")
_EXTRACTIONS = ("strict", "fenced", "first_object", "after_think")
_EXTRAS = (None, "forbid", "schema")


class Declaration(TypedDict, total=False):
    """The keywords that declare a contract; :class:`Contract` says what each means."""

    tools: Iterable[object]
    answer: object
    channel: Channel
    parallel: bool
    extraction: Extraction | Iterable[Extraction]
    extra: Extra | None
    formats: Formats | None
    answer_style: AnswerStyle
    blank_answers: bool
    calls_as_text: CallsAsText
    limits: Limits


class Contract:
    """A declaration that replies are held to; immutable, safe to share between threads and tasks.

    ``tools`` takes functions, pydantic models, :class:`Tool` values, OpenAI definitions and MCP entries. ``answer``
    is ``str``, a pydantic type or a JSON Schema: what a direct answer must be. ``channel`` says where calls are
    written: ``native`` (``tool_calls``) or ``text`` (a JSON union in the content). ``parallel`` admits several native
    calls at once. ``extraction`` is one leniency or several; ``strict`` forgives nothing. ``extra`` is ``forbid`` or
    ``schema`` for all tools and the answer, None to leave each tool as it was declared. ``answer_style="tool"`` makes
    the tool ``final_answer`` the only way to answer (requirement T14). ``blank_answers`` admits white space as an
    answer. ``calls_as_text="answer"`` admits a native text answer that is, as a whole, a call of a declared tool in a
    spelling that models are known to write (JSON, ``<tool_call>``, …); ``refuse`` makes it the fault ``call.as_text``.
    ``formats`` says whether ``format`` is asserted in the tools and the answer; None leaves each tool as it
    was declared, and asserts it in the answer.

    Raises ContractError when a declaration is wrong.
    """

    __slots__ = ("_terms",)

    def __init__(
        self,
        *,
        tools: Iterable[object] = (),
        answer: object = str,
        channel: Channel = "native",
        parallel: bool = False,
        extraction: Extraction | Iterable[Extraction] = "strict",
        extra: Extra | None = None,
        formats: Formats | None = None,
        answer_style: AnswerStyle = "union",
        blank_answers: bool = False,
        calls_as_text: CallsAsText = "refuse",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Compile the declaration once."""
        _one_of("channel", channel, _CHANNELS)
        _one_of("answer_style", answer_style, ("union", "tool"))
        _one_of("calls_as_text", calls_as_text, ("refuse", "answer"))
        _one_of("extra", extra, _EXTRAS)
        _one_of("formats", formats, (None, "assert", "annotate"))
        modes = (extraction,) if isinstance(extraction, str) else tuple(extraction)
        for mode in modes:
            _one_of("extraction", mode, _EXTRACTIONS)
        _refuse_one_tool(tools)
        declared = by_name(Tool.all_of(tools, extra=extra, formats=formats))
        if answer_style == "tool" and FINAL_ANSWER in declared:
            message = f"with answer_style='tool' the name {FINAL_ANSWER!r} is taken by the answer; rename the tool"
            raise ContractError(message)
        self._terms = Terms(
            tools=declared,
            answer=Answer.of(answer, extra=extra or "forbid", formats=formats or "assert", blank=blank_answers),
            channel=channel,
            parallel=parallel,
            answer_style=answer_style,
            extraction=modes,
            limits=limits,
            extra=extra,
            formats=formats,
            calls_as_text=calls_as_text,
        )

    @classmethod
    def of(cls, terms: Terms) -> Contract:
        """Make a contract of compiled terms, such as those that one request shaped."""
        contract = cls.__new__(cls)
        contract._terms = terms  # noqa: SLF001 - a slot of its own class
        return contract

    def __repr__(self) -> str:
        """Name the channel and the tools."""
        return f"Contract(channel={self.terms.channel!r}, tools=[{self.terms.tool_list}])"

    @property
    def terms(self) -> Terms:
        """The declaration, compiled: what the rooms that judge and ask look things up in."""
        return self._terms

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The declared tools, in order."""
        return tuple(self.terms.tools.values())

    def check(self, reply: object) -> Verdict:
        """Judge a reply: no client, no I/O.

        ``reply`` is a JSON text (the union in the text channel, a message or a completion in the native one), an
        OpenAI message or a whole completion, each as a mapping or an SDK object. Nothing is changed. The tools' own
        checks run last; ContractError when one is async (use :meth:`acheck`).
        """
        return drive(self._check(reply), perform_check)

    async def acheck(self, reply: object) -> Verdict:
        """Judge a reply like :meth:`check`, awaiting the tools' async checks."""
        return await adrive(self._check(reply), aperform_check)

    def _check(self, reply: object) -> Generator[Check, Checked, Verdict]:
        """Judge by the terms, then ask for the user's own checks."""
        verdict = judge_reply(self.terms, reply)
        effect = check_of(self.terms, verdict)
        if effect is None:
            return verdict
        checked = yield effect
        return Invalid(checked.issues, verdict.leniency) if checked.issues else verdict


def judge_reply(terms: Terms, reply: object) -> Verdict:
    """Judge whatever a user may hold in hand: a text, a message or a completion."""
    if not isinstance(reply, str | bytes):
        return judge(terms, reply)
    if terms.channel == "text":
        return judge_text(terms, reply, Work())
    value = decode(reply, terms.limits, names=terms.names)
    return value if isinstance(value, Invalid) else judge(terms, value)


def _refuse_one_tool(tools: object) -> None:
    """Refuse a tool where a list of tools belongs."""
    if not isinstance(tools, Iterable) or isinstance(tools, str | Mapping):
        message = f"tools must be a list of tools; put the one {type(tools).__name__} into a list"
        raise ContractError(message)


def _one_of(name: str, value: Any, allowed: tuple[str | None, ...]) -> None:
    """Refuse a keyword's value that is none of the allowed ones."""
    if value not in allowed:
        message = f"{name} must be one of {', '.join(map(str, allowed))}; got {value!r}"
        raise ContractError(message)
