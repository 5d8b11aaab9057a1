"""``lint``: reports how each provider treats a program's schemas, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import combinations
from typing import Any, Final, NamedTuple, cast, get_args

from strictreply.contract._answer import Answer
from strictreply.contract._findings import (
    INSTEAD,
    TRAIT_WORDS,
    Finding,
    FindingCode,
    LintReport,
    Severity,
)
from strictreply.contract._tool import tools_of
from strictreply.schema import Schema
from strictreply.schema._disjoint import MOST_FORMS, Disjoint
from strictreply.schema._places import (
    KEYWORDS,
    OPTIONAL,
    UNIONS,
    SchemaDocument,
    is_object,
    members_of,
    optional_of,
    required_of,
)
from strictreply.schema._providers import PROVIDERS, TABLE, Provider, Treatment
from strictreply.schema._sent_form import StrictProvider, sent_form
from strictreply.schema._survey import LIMITS, NAMES, PlaceTreatment, schemas_in, survey
from strictreply.values._errors import ContractError
from strictreply.values._issues import compact, counted, pointer, quote
from strictreply.values._limits import JSON, JSONObject

CHARS_A_TOKEN: Final = 4
"""Characters of JSON that count as one token in an estimate."""
_ALIKE: Final = 0.9
_MOST_NAMED: Final = 5
_MOST_SHOWN: Final = 30
_SEVERITIES: Final = {
    Treatment.REFUSED: (FindingCode.REFUSED, Severity.ERROR),
    Treatment.NARROWED: (FindingCode.NARROWED, Severity.WARNING),
    Treatment.DROPPED: (FindingCode.DROPPED, Severity.NOTE),
    Treatment.DESCRIBED: (FindingCode.DESCRIBED, Severity.NOTE),
}
_WORDS: Final = {
    Treatment.REFUSED: "{what} is rejected by {who}",
    Treatment.NARROWED: "{what} is read more strictly: some valid replies become impossible",
    Treatment.DROPPED: "{what} is accepted but not enforced; strictreply checks it",
    Treatment.DESCRIBED: "{what} becomes part of the description; strictreply checks it",
}
_ORDER: Final = list(Severity)


def lint(
    tools: Iterable[object] = (),
    *,
    answer: object = str,
    providers: Iterable[Provider] | None = None,
) -> LintReport:
    """Report how providers treat the schemas of tools and of an answer, without sending anything.

    - ``tools`` are functions, models, definitions or ``Tool`` values, as for ``wrap``.
    - ``answer`` is the type or schema of a structured answer; ``str`` has no schema.
    - ``providers`` are the providers to report on; None for all.

    Raises ContractError for a wrong declaration or an unknown provider.
    """
    asked = PROVIDERS if providers is None else tuple(providers)
    unknown = [name for name in asked if name not in TABLE]
    if unknown:
        known = ", ".join(PROVIDERS)
        raise ContractError(f"unknown provider {quote(unknown[0])}; the providers are: {known}")

    subjects = [*_tool_subjects(tools), *_answer_subjects(answer)]
    found = [*_of_request(subjects, asked)]
    for subject in subjects:
        found.extend(_of_schema(subject))
    for provider in asked:
        found.extend(_of_provider(subjects, provider))

    return LintReport(tuple(sorted(found, key=_rank)), asked)


def _rank(finding: Finding) -> int:
    return _ORDER.index(finding.severity)


@dataclass(frozen=True, slots=True)
class _Subject:
    """A schema that would be sent."""

    document: SchemaDocument
    """The schema."""
    definition: JSONObject
    """The part of a request that has it."""
    description: str = ""
    """The description of the tool."""
    tool: str | None = None
    """The name of the tool; None for the answer."""

    @property
    def name(self) -> str:
        """The name of the tool, or the word for the answer."""
        return self.tool or "the answer"

    def found(
        self, code: FindingCode, severity: Severity, message: str, instead: str, path: str = ""
    ) -> Finding:
        """Return a finding about this schema."""
        is_answer = self.tool is None
        return Finding(code, severity, message, instead, None, self.tool, is_answer, path)


def _tool_subjects(tools: Iterable[object]) -> Iterator[_Subject]:
    for tool in tools_of(tools):
        function = tool.definition.get("function")
        if isinstance(function, dict):
            document = SchemaDocument(function.get("parameters") or {})
            yield _Subject(document, function, tool.description, tool.name)


def _answer_subjects(answer: object) -> Iterator[_Subject]:
    schema = Answer.of(answer).schema
    if schema is not None and isinstance(schema.shown, dict):
        yield _Subject(SchemaDocument(schema.shown, is_tool=False), schema.shown)


def _of_request(subjects: Sequence[_Subject], asked: Sequence[Provider]) -> Iterator[Finding]:
    """Yield the findings about all schemas together."""
    documents = [subject.document for subject in subjects]
    if documents:
        yield _size(subjects)

    for provider in asked:
        for limit in LIMITS.get(provider, ()):
            count = limit.count(documents) if limit.is_of_request else 0
            if count > limit.most:
                yield Finding(
                    FindingCode.OVER_LIMIT,
                    Severity.ERROR,
                    f"{count} {limit.noun}; at most {limit.most} are accepted",
                    limit.instead,
                    provider,
                    source=limit.source,
                )

    tools = [subject for subject in subjects if subject.tool is not None]
    yield from _similar_names(tools)
    yield from _same_required(tools)


def _size(subjects: Sequence[_Subject]) -> Finding:
    """Return the finding about what all schemas cost in each request."""
    sizes = {subject.name: len(compact(subject.definition)) for subject in subjects}
    chars = sum(sizes.values())
    optional = sum(
        len(optional_of(schema))
        for subject in subjects
        for schema, _, _ in schemas_in(subject.document.root)
    )
    largest = sorted(sizes, key=lambda name: -sizes[name])[:_MOST_NAMED]
    named = ", ".join(f"{name} {sizes[name]}" for name in largest)
    tokens = -(-chars // CHARS_A_TOKEN)
    return Finding(
        FindingCode.SIZE,
        Severity.NOTE,
        f"{chars} characters, about {tokens} tokens, in each request; "
        f"{counted(optional, 'optional member')}; the largest: {named}",
        "shorter descriptions, and only members that the program uses",
    )


def _similar_names(tools: Sequence[_Subject]) -> Iterator[Finding]:
    for one, other in combinations(tools, 2):
        if _are_alike(one.name, other.name):
            yield one.found(
                FindingCode.SIMILAR_NAMES,
                Severity.WARNING,
                f"the name is similar to {other.name}: models confuse them",
                "names with different verbs or objects",
            )


def _same_required(tools: Sequence[_Subject]) -> Iterator[Finding]:
    """Find tools that require the same members, each group once."""
    groups: dict[frozenset[str], list[_Subject]] = {}
    for subject in tools:
        groups.setdefault(frozenset(required_of(subject.document.root)), []).append(subject)

    for required, group in groups.items():
        if required and len(group) > 1:
            others = _named([subject.name for subject in group[1:]])
            yield group[0].found(
                FindingCode.SAME_REQUIRED,
                Severity.NOTE,
                f"{others} require the same members: arguments of one may fit another",
                "descriptions that say when to call which; or one tool with an enum for the case",
            )


def _named(names: Sequence[str]) -> str:
    """Return the first of some names in one line."""
    return ", ".join(names[:_MOST_NAMED]) + ("…" if len(names) > _MOST_NAMED else "")


def _are_alike(one: str, other: str) -> bool:
    matcher = SequenceMatcher(None, _plain_name(one), _plain_name(other))
    return (
        min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= _ALIKE
        and matcher.ratio() >= _ALIKE
    )


def _plain_name(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def _of_schema(subject: _Subject) -> Iterator[Finding]:
    """Yield the findings about one schema that do not depend on the provider."""
    yield from _root(subject)
    yield from _descriptions(subject)
    for schema, path, _ in schemas_in(subject.document.root):
        yield from _open_object(subject, schema, path)
        yield from _unions(subject, schema, path)


def _root(subject: _Subject) -> Iterator[Finding]:
    root = subject.document.root
    if root.get("type") != "object":
        yield subject.found(
            FindingCode.ROOT_NOT_OBJECT,
            Severity.WARNING,
            "the root is not declared as an object: several APIs return a 400",
            '"type": "object" at the root',
        )
    elif "properties" not in root:
        yield subject.found(
            FindingCode.ROOT_WITHOUT_PROPERTIES,
            Severity.WARNING,
            "the root has no properties: several APIs return a 400",
            '"properties": {} if there are no members',
        )


def _descriptions(subject: _Subject) -> Iterator[Finding]:
    if subject.tool is not None and not subject.description.strip():
        yield subject.found(
            FindingCode.NO_DESCRIPTION,
            Severity.WARNING,
            "the tool has no description: a model has to guess when to call it",
            "a sentence on what it does and when to call it",
        )

    members = members_of(subject.document.root)
    bare = [name for name, member in members.items() if not _is_described(member, subject)]
    if bare:
        yield subject.found(
            FindingCode.NO_DESCRIPTION,
            Severity.NOTE,
            f"members without a description: {_named(bare)} ({len(bare)} of {len(members)})",
            "a description with the unit, the format and an example of the value",
            "/properties",
        )


def _is_described(member: object, subject: _Subject) -> bool:
    if not isinstance(member, dict):
        return False

    reference = member.get("$ref")
    target = subject.document.find(reference) if isinstance(reference, str) else None
    places = (member, target if isinstance(target, dict) else {})
    return any(bool(place.get("description")) or "const" in place for place in places)


def _open_object(subject: _Subject, schema: JSONObject, path: str) -> Iterator[Finding]:
    others = schema.get("additionalProperties", schema.get("unevaluatedProperties", True))
    if is_object(schema) and others is True:
        yield subject.found(
            FindingCode.OPEN_OBJECT,
            Severity.NOTE,
            "the object allows any other members",
            '"additionalProperties": false, or extra="forbid", which is the default',
            path,
        )


def _unions(subject: _Subject, schema: JSONObject, path: str) -> Iterator[Finding]:
    for keyword in UNIONS:
        forms = schema.get(keyword)
        if not isinstance(forms, list):
            continue

        at = pointer(path, keyword)
        tag = schema.get("discriminator")
        name = tag.get("propertyName") if isinstance(tag, dict) else None
        if isinstance(name, str):
            yield from _optional_tags(subject, forms, name, at)

        overlap = _overlap(subject.document, forms, is_exact=keyword == "oneOf")
        if overlap is not None:
            yield subject.found(
                FindingCode.AMBIGUOUS_UNION,
                Severity.WARNING,
                f"one value can fit both form {overlap[0]} and form {overlap[1]}: the union is "
                "ambiguous",
                "a required member with its own const in each form",
                at,
            )


def _optional_tags(
    subject: _Subject, forms: Sequence[Any], name: str, path: str
) -> Iterator[Finding]:
    for index, form in enumerate(forms):
        schema = _resolved(form, subject.document)
        if name in members_of(schema) and name not in required_of(schema):
            yield subject.found(
                FindingCode.OPTIONAL_TAG,
                Severity.WARNING,
                f"the tag {name} is optional: without it the form is ambiguous",
                f'"{name}" in "required"',
                pointer(path, index),
            )


def _resolved(form: object, document: SchemaDocument) -> JSONObject:
    if isinstance(form, dict) and isinstance(reference := form.get("$ref"), str):
        form = document.find(reference)

    return form if isinstance(form, dict) else {}


def _overlap(
    document: SchemaDocument, forms: Sequence[Any], *, is_exact: bool
) -> tuple[int, int] | None:
    """Return the indexes of two forms that one value certainly fits; None if none were found.

    Only forms that are objects are compared, or all forms if exactly one must fit.
    """
    if len(forms) > MOST_FORMS:
        return None

    resolved = [_resolved(form, document) for form in forms]
    made: dict[int, _Made | None] = {}
    for one, other in combinations(range(len(forms)), 2):
        pair = [resolved[one], resolved[other]]
        if not (is_exact or all(map(is_object, pair))):
            continue
        if Disjoint(document).are_pairwise(pair, {}) is True:
            continue

        for index in (one, other):
            if index not in made:
                made[index] = _made(resolved[index], document)

        if _share_value(made[one], made[other]):
            return one, other

    return None


class _Made(NamedTuple):
    """A compiled form, and a value that fits it."""

    schema: Schema
    """The form."""
    example: JSON
    """The value."""


def _share_value(one: _Made | None, other: _Made | None) -> bool:
    if one is None or other is None:
        return False

    return not one.schema.check(other.example) or not other.schema.check(one.example)


def _made(form: JSONObject, document: SchemaDocument) -> _Made | None:
    """Compile a form and find a value that fits it; None if there is none."""
    names = ("$schema", "$defs", "definitions")
    around = {name: document.root[name] for name in names if name in document.root}
    try:
        schema = Schema.compile({**around, **form}, extra="schema", root_closed=False)
    except ContractError:
        return None

    # null is a value, too
    return next((_Made(schema, example) for example in schema.examples()), None)


def _of_provider(subjects: Sequence[_Subject], provider: Provider) -> Iterator[Finding]:
    """Yield the findings about one provider's treatment of the schemas."""
    rules: dict[str, list[Treatment]] = {}
    for subject in subjects:
        yield from _bounded(subject, provider)
        yield from _sent(subject, provider)
        places = survey(subject.document.root, provider, is_tool=subject.document.is_tool)
        for place in places:
            if place.treatment in _SEVERITIES:
                yield _of_place(subject, place, provider)

        treatments = [place.treatment for place in places if place.keyword in KEYWORDS]
        rules.setdefault(subject.name, []).extend(treatments)

    if rules:
        yield _enforced(rules, provider)


def _sent(subject: _Subject, provider: Provider) -> Iterator[Finding]:
    """Yield the finding about the form in which strictreply sends a schema for strict mode."""
    if provider not in get_args(StrictProvider):
        return

    document = subject.document
    form = sent_form(
        document.root, cast("StrictProvider", provider), wraps_root=not document.is_tool
    )
    title = TABLE[provider].title
    if form.is_strict and form.document == document.root:
        return

    if form.is_strict:
        found = subject.found(
            FindingCode.CONVERTED,
            Severity.NOTE,
            f"strictreply sends a converted form that {title} enforces, and converts replies back",
            "nothing: strictreply checks what the converted form cannot express",
        )
    else:
        found = subject.found(
            FindingCode.AS_DECLARED,
            Severity.WARNING,
            f"strictreply sends it without strict mode, because it cannot be converted for "
            f"{title}: {form.why}",
            "a schema that can be converted, if the model makes mistakes here",
        )

    yield replace(found, provider=provider)


def _bounded(subject: _Subject, provider: Provider) -> Iterator[Finding]:
    """Yield the findings about names and sizes that a provider rejects."""
    rule = NAMES.get(provider)
    if subject.tool is not None and rule is not None and not rule.allowed.fullmatch(subject.tool):
        finding = subject.found(
            FindingCode.NAME_REFUSED,
            Severity.ERROR,
            "the name of the tool is rejected",
            f"a name of {rule.words}",
        )
        yield replace(finding, provider=provider, source=rule.source)

    for limit in LIMITS.get(provider, ()):
        count = 0 if limit.is_of_request else limit.count([subject.document])
        if count > limit.most:
            message = f"{count} {limit.noun}; at most {limit.most} are accepted"
            code, severity = FindingCode.OVER_LIMIT, Severity.ERROR
            finding = subject.found(code, severity, message, limit.instead)
            yield replace(finding, provider=provider, source=limit.source)


def _enforced(rules: Mapping[str, list[Treatment]], provider: Provider) -> Finding:
    """Return the finding about how many rules of all schemas a provider enforces."""
    every = [treatment for each in rules.values() for treatment in each]
    partly = [name for name, each in rules.items() if {*each} - {Treatment.ENFORCED}]
    unknown = every.count(Treatment.UNKNOWN)

    words = f"{every.count(Treatment.ENFORCED)} of {counted(len(every), 'rule')} are enforced by "
    words += TABLE[provider].title + (f"; for {unknown} it is unknown" if unknown else "")
    words += f"; only some of {_named(partly)}" if partly else ""
    return Finding(
        FindingCode.ENFORCED,
        Severity.NOTE,
        words,
        "nothing: strictreply checks all of them in any case",
        provider,
    )


def _of_place(subject: _Subject, place: PlaceTreatment, provider: Provider) -> Finding:
    code, severity = _SEVERITIES[place.treatment]
    message = _WORDS[place.treatment].format(what=_shown(place), who=TABLE[provider].title)
    finding = subject.found(code, severity, message, INSTEAD[place.keyword], place.path)
    return replace(finding, provider=provider, source=place.source)


def _shown(place: PlaceTreatment) -> str:
    """Return a keyword with its value if that is short, or words for a trait."""
    schema = place.place.schema
    if place.keyword not in schema:
        names = ", ".join(optional_of(schema)[:_MOST_NAMED])
        words = TRAIT_WORDS.get(place.keyword, place.keyword)
        return f"{words} ({names})" if place.keyword == OPTIONAL else words

    value = schema[place.keyword]
    words = compact(value)
    is_short = len(words) <= _MOST_SHOWN and not isinstance(value, Mapping)
    return f"{place.keyword}: {words}" if is_short else place.keyword
