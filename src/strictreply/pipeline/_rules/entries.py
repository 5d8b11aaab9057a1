"""The entries of a list, read without a complaint: calls and results, each told of by its index, id and name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from strictreply.pipeline._rules.reading import entries, is_object, member_of, text_or_none
from strictreply.pipeline._rules.rule import Breach, Breaches, Facts, Subject
from strictreply.values._issues import Issue, pointer


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list, whatever its members are; ``path`` leads to it from the content that is judged."""

    value: object
    index: int
    path: str

    def __getitem__(self, member: str) -> object:
        """Read a member by its name; None where there is none."""
        return member_of(self.value, member)

    @property
    def id(self) -> str | None:
        """The id of the call; None when it is no text."""
        return text_or_none(self["tool_call_id"])

    @property
    def name(self) -> str | None:
        """The name of the tool; None when it is no text."""
        return text_or_none(self["name"])

    @property
    def error(self) -> str | None:
        """Why a call failed, as its result says; None when it is no text."""
        return text_or_none(self["error_message"])

    def breach(
        self,
        member: str,
        *,
        reason: str | None = None,
        result_id: str | None = None,
        result_name: str | None = None,
        issues: tuple[Issue, ...] = (),
    ) -> Breach:
        """Tell what is wrong with one member of this entry."""
        facts = Facts(
            index=self.index,
            tool_call_id=self.id,
            name=self.name,
            reason=reason,
            result_id=result_id,
            result_name=result_name,
            issues=issues,
        )
        return Breach(pointer(self.path, member), facts)


def entries_at(subject: Subject, path: str) -> Iterator[Entry]:
    """Give the entries of a list that are objects."""
    for index, value in enumerate(entries(subject[path])):
        if is_object(value):
            yield Entry(value, index, pointer(path, index))


def where_each_entry(path: str, member: str, holds: Callable[[object], bool]) -> Breaches:
    """Ask one member of every entry of a list."""
    return lambda subject: [entry.breach(member) for entry in entries_at(subject, path) if not holds(entry[member])]


def without_null_entries(path: str) -> Breaches:
    """Ask a list to hold objects alone; what is none is told by its index (requirement P58)."""
    return lambda subject: [
        Breach(pointer(path, index), Facts(index=index))
        for index, value in enumerate(entries(subject[path]))
        if not is_object(value)
    ]
