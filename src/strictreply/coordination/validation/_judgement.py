"""The one judgement of a reply: read by processors, held to its format and its terms. Every verdict is made here.

The processor judges by it what it is given, and a wrapped client's loop what a model replied (:mod:`answering`), so
that the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from strictreply.coordination._actions.kinds import Origin
from strictreply.coordination._actions.terms import ActionTerms
from strictreply.coordination._replies.plain_json import UNREADABLE
from strictreply.coordination._replies.processors import Candidate, ProcessorChain, candidate_of
from strictreply.coordination._replies.readings import Reading, read_message, read_reply
from strictreply.coordination._replies.results import Source, ValidationResult
from strictreply.coordination.validation._action_rules import judge_action, refused, system_result
from strictreply.values._issues import Code, Issue
from strictreply.values._json import Extraction
from strictreply.values._limits import Limits
from strictreply.values._replies import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All that a verdict follows from, beside the reply.

    ``terms`` are what the reply is held to, ``chain`` reads it, ``extraction`` is what the reader forgives. ``pinned``
    is the format that the agent began this conversation in, None when it has not replied yet; with ``locked`` another
    one is a fault, without it a note.
    """

    terms: ActionTerms
    chain: ProcessorChain
    extraction: tuple[Extraction, ...] = ("strict",)
    pinned: str | None = None
    locked: bool = False

    @property
    def limits(self) -> Limits:
        """The caps of one reply."""
        return self.terms.tools.limits

    def of_reply(self, raw: object) -> ValidationResult:
        """Judge whatever came instead of an action; the tools' own checks are still to be asked."""
        return self._verdict(lambda: read_reply(raw, self.extraction, self.limits))

    def of_message(self, message: object) -> ValidationResult:
        """Judge an assistant message whose envelope was opened before."""
        return self._verdict(lambda: read_message(message, self.extraction, self.limits))

    def of_reading(self, reading: Reading) -> ValidationResult:
        """Judge what was read already."""
        return self._verdict(lambda: reading)

    def _verdict(self, read: Callable[[], Reading | Invalid]) -> ValidationResult:
        """Read a reply, and hold what it asks for to its terms."""
        found = self._candidate(read)
        if isinstance(found, Invalid):
            return refused(found.issues, self.terms, Source(leniency=found.leniency))
        changed = self._changed_format(found.source.response_format)
        source = replace(found.source, notes=(*found.source.notes, *changed)) if changed else found.source
        if found.origin is Origin.SYSTEM:
            return system_result(found.action, self.terms, source)
        if changed and self.locked:
            return refused(changed, self.terms, source)
        return judge_action(found.action, self.terms, source)

    def _candidate(self, read: Callable[[], Reading | Invalid]) -> Candidate | Invalid:
        """Read a reply; behind this line there is plain JSON alone, and no code of a stranger's runs."""
        try:
            reading = read()
            return reading if isinstance(reading, Invalid) else candidate_of(self.chain.processors, reading)
        except Exception:  # noqa: BLE001 - to look at an object is to run its code, which may raise anything (M4)
            return Invalid((UNREADABLE,))

    def _changed_format(self, now: str) -> tuple[Issue, ...]:
        """Report a reply in another format than the one the agent began in (requirements M119, X6)."""
        if not now or self.pinned in (None, now):
            return ()
        return (Issue.of(Code.FORMAT_CHANGED, name=self.pinned),)
