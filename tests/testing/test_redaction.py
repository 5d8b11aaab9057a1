"""Redaction: what looks like a secret is gone wherever it stands.

Everything else stays as it was.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.core.calls import REDACTED
from strictreply.testing._recordings import Redaction, redacted

KEY = "sk-proj-abcDEF0123456789_-xyz"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc/+==\n-----END RSA PRIVATE KEY-----"
SHAPED = [
    KEY,
    "sk-ant-api03-0123456789abcdefghij",
    "sk_live_0123456789abcdefghij",
    "gsk_0123456789abcdefghij",
    "nvapi-0123456789abcdefghij",
    "npm_0123456789abcdefghij",
    "ghp_0123456789abcdefghijABCDEFGHIJ",
    "github_pat_0123456789abcdefghij",
    "glpat-0123456789abcdefghij",
    "xoxb-0123456789-abcdefghij",
    "hf_0123456789abcdefghij",
    "AKIA0123456789ABCDEF",
    "AIza0123456789abcdefghij",
    JWT,
    PEM,
]
SECRET_NAMES = [
    "password",
    "api_key",
    "apiKey",
    "client_secret",
    "X-Api-Key",
    "Authorization",
    "access_token",
    "dbPassword",
    "token",
    "x-api-token",
]

PARTS = [
    '"password"',
    "'token'",
    "token",
    "=",
    ":",
    " ",
    '"',
    "'",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "7",
    "x",
    ",",
    "bearer ",
    REDACTED,
]
PIECES = [
    "\\",
    '"token":{',
    '"token":{"a":',
    '"token":["',
    "token=",
    "token =\\",
    "'token':'",
    '"token":{"type',
    "token  ",
    '"token":7',
    '"password":"',
    "://",
    "://a:",
    "-eyJ",
    ".eyJ",
    "sk-",
    "-----BEGIN PRIVATE KEY-----",
    "bearer ",
]


@pytest.mark.parametrize("secret", SHAPED)
@pytest.mark.parametrize(
    "around", ["{}", "use {} now", '"{}"', "key={}\nend", "Bearer {}", "a\n{}"]
)
def test_what_has_the_form_of_a_secret_is_gone(secret: str, around: str) -> None:
    """Known kinds of keys and tokens are taken out, in prose, in JSON, and in JSON within JSON."""
    text = around.format(secret)
    for written in (
        text,
        json.dumps(text),
        json.dumps(json.dumps(text)),
        json.dumps({"a": json.dumps({"b": text})}),
    ):
        given = redacted(written)
        assert secret.splitlines()[-1] not in given
        assert not any(part in given for part in (secret[4:20], secret[-12:]))
        assert REDACTED in given


@pytest.mark.parametrize(
    "text",
    [
        "a task-force-of-sixteen-people",
        "the bearer certificate of birth",
        "a sk-short one",
        "https://example.com/a:b@c",
        '{"required": ["password"], "max_tokens": 5}',
        '{"password": {"type": "string"}}',
        '{"token": "Hello", "logprob": -0.1, "bytes": [72]}',
        '{"token": "Hello", "bytes": [72], "logprob": -0.1}',
        '{"secret": true, "password": null, "prompt_tokens": 5, "token_type": "bearer"}',
        '{"password": {"title": "Password", "type": "string", "minLength": 8}}',
        (
            '{"token": {"anyOf": [{"type": "string"}, {"type": "null"}]}, '
            '"secret": {"$ref": "#/$defs/Key"}}'
        ),
        'if password == "" or the token = ',
        "eyJ is how they begin",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Words, schemas and numbers that only sound like secrets are kept as they are."""
    assert redacted(text) == text


def test_who_logs_in_by_address_is_gone() -> None:
    """The user and the password in a URL are taken out."""
    assert redacted("see https://ada:hunter2@host/x") == f"see https://{REDACTED}@host/x"
    assert redacted("redis://:hunter2@host:6379/0") == f"redis://{REDACTED}@host:6379/0"
    assert (
        redacted("Authorization: Basic dXNlcjpwYXNzd29yZDE=") == f"Authorization: Basic {REDACTED}"
    )


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_what_python_prints_is_read_too(name: str) -> None:
    """A tool's result is often the repr of a dict: the text under a secret name is gone from it."""
    assert redacted(repr({"user": "ada", name: "hunter2"})) == repr({"user": "ada", name: REDACTED})


def nested(value: Any, depth: int) -> str:
    """Write JSON within JSON, so deep."""
    text = json.dumps(value, ensure_ascii=False)
    return text if depth == 0 else nested({"inner": text}, depth - 1)


def unnested(text: str, depth: int) -> Any:
    """Read JSON within JSON."""
    value = json.loads(text)
    return value if depth == 0 else unnested(value["inner"], depth - 1)


@given(
    secret=st.text('ab"\\/\n é,:}{', min_size=3, max_size=20),
    other=st.text('ab"\\/\n é,:}{', max_size=10),
    name=st.sampled_from(SECRET_NAMES),
    depth=st.integers(0, 3),
)
def test_what_a_name_says_is_secret_is_gone_however_deep(
    secret: str, other: str, name: str, depth: int
) -> None:
    """In JSON within JSON the text under a secret's name is replaced, exactly that: the rest reads
    as before.
    """
    given = redacted(nested({name: secret, "other": other}, depth))
    assert unnested(given, depth) == {name: REDACTED, "other": other}


def test_a_name_within_a_secret_is_part_of_it() -> None:
    """A secret that looks like JSON with a secret in it is taken out as a whole."""
    given = redacted(json.dumps({"password": json.dumps({"secret": "hunter2"}), "other": 1}))
    assert json.loads(given) == {"password": REDACTED, "other": 1}


def test_a_text_that_is_cut_off_keeps_nothing_of_a_secret() -> None:
    """A value after a secret's name that has no end is taken out up to the end of the text."""
    assert redacted('{"password": "hunter2 is') == '{"password": "' + REDACTED


@given(
    secret=st.recursive(
        st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text('ab"\\\\{}[] ', max_size=9),
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.dictionaries(st.text('ab"\\\\{}[]'), inner, min_size=1)
        ),
        max_leaves=5,
    ),
    name=st.sampled_from(SECRET_NAMES),
    depth=st.integers(0, 3),
)
def test_what_is_no_text_is_gone_as_well(secret: Any, name: str, depth: int) -> None:
    """Under a secret's name a number, an object and an array are replaced as wholes; what stands
    beside them stays.
    """
    given = redacted(nested([{name: secret, "other": "kept"}, 7], depth))
    assert unnested(given, depth) == [{name: REDACTED, "other": "kept"}, 7]


def test_an_object_that_is_cut_off_keeps_nothing_of_a_secret() -> None:
    """An object without an end goes up to the end of the JSON text that it stands in."""
    assert redacted('{"password": {"a": ["hunter2"') == f'{{"password": "{REDACTED}"'
    assert json.loads(redacted(json.dumps({"a": '{"password": {"b": 12', "c": 1}))) == {
        "a": f'{{"password": "{REDACTED}"',
        "c": 1,
    }


@pytest.mark.parametrize("name", ["password", "OPENAI_API_KEY", "db_token", "export GH_TOKEN"])
@pytest.mark.parametrize(
    ("assigned", "told"),
    [
        ("={}", "={}"),
        ("={}, he said", "={}, he said"),
        (" = {}\nNEXT=1", " = {}\nNEXT=1"),
        ("='{} and more'", "='{}'"),
        ('="{}";', '="{}";'),
        ("={}&page=2", "={}&page=2"),
        ("=Bearer {}", "={}"),
    ],
)
def test_what_is_assigned_to_a_secret_name_is_gone(name: str, assigned: str, told: str) -> None:
    """In prose, in a shell's line, in an address, and in JSON around them, the value goes and the
    rest stays.
    """
    before = f"set {name}{assigned.format('hunter2')}"
    after = f"set {name}{told.format(REDACTED)}"
    assert redacted(before) == after
    assert json.loads(redacted(json.dumps({"text": before}))) == {"text": after}


@pytest.mark.parametrize(
    "value", [1234, -1.5, {"user": "ada", "key": "hunter2"}, {"type": "bearer", "value": "x"}]
)
def test_members_that_are_no_texts_are_judged_too(value: Any) -> None:
    """In JSON values a number or an object under a secret's name goes as a whole, also in a printed
    dict.
    """
    assert Redaction().value({"credentials": value, "other": 1}) == {
        "credentials": REDACTED,
        "other": 1,
    }
    assert "1234" not in redacted(repr({"password": 1234, "other": 'it is "1"'}))


def test_declarations_and_tokens_of_a_model_stay() -> None:
    """A schema of a parameter is no secret, nor is true, null, nor the token of which a logprob
    tells.
    """
    schema = {
        "type": "object",
        "properties": {"password": {"type": "string"}, "token": {"type": ["string", "null"]}},
    }
    probable = {"token": "Hi", "logprob": -1.0, "top_logprobs": [{"token": "Hi", "logprob": -1.0}]}
    value = {
        "parameters": schema,
        "content": [probable],
        "secret": None,
        "password": True,
        "credentials": {},
    }
    assert Redaction().value(value) == value


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_members_are_judged_by_their_names(name: str) -> None:
    """In JSON values the texts under a secret's name are left out, also those in a list."""
    given = Redaction().value({name: "hunter2", "list": [{name: ["a", "b"]}], "other": "kept"})
    assert given == {name: REDACTED, "list": [{name: [REDACTED, REDACTED]}], "other": "kept"}


def test_names_of_members_are_texts_too() -> None:
    """A key that somebody used as a name is taken out."""
    assert Redaction().value({KEY: 1}) == {REDACTED: 1}


def test_known_secrets_are_taken_out_unless_they_are_placeholders() -> None:
    """A credential goes wherever it stands; one that is a word of a few letters is none, and is
    everywhere.
    """
    redaction = Redaction().knowing(("my-own-key-1", "none", ""))
    assert redaction.value({"tool_choice": "none", "content": "I am my-own-key-1!"}) == {
        "tool_choice": "none",
        "content": f"I am {REDACTED}!",
    }


def test_more_comes_last_and_sees_every_text() -> None:
    """The user's own redaction is given each text and each name, with the secrets already out."""
    seen: list[str] = []

    def more(text: str) -> str:
        """Take out a name."""
        seen.append(text)
        return text.replace("Ada", "somebody")

    assert Redaction(more).value({"Ada": ["Ada", KEY, 5]}) == {
        "somebody": ["somebody", REDACTED, 5]
    }
    assert seen == ["Ada", "Ada", REDACTED]


@given(
    text=st.text('\\"bearer :/@.sk-_AKIAeyJpassword0123456789\n', max_size=300)
    | st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
)
def test_what_was_redacted_once_stays(text: str) -> None:
    """A second time changes nothing."""
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.one_lane
@pytest.mark.parametrize("piece", PIECES)
def test_hostile_texts_are_read_in_bounded_work(piece: str) -> None:
    """Half a megabyte of beginnings is done: no pattern tries each of them against all the rest."""
    assert redacted(piece * (500_000 // len(piece)))


@pytest.mark.parametrize(
    "text",
    [
        "token: {}",
        "x-api-key: {}",
        "X-Api-Key:{}",
        "secret : {} and more",
        "Cookie: sid={}; theme=dark",
        "Set-Cookie: sid={}; HttpOnly",
        "Authorization: Basic {}",
        "Proxy-Authorization: {}",
        "bearer {}",
        "BEARER {}",
        "api-key={}",
        "GET /v1/chat?key={}&page=2",
        "see https://store.invalid/a?x=1&X-Amz-Signature={}#top",
        "https://store.invalid/a?sig={}",
    ],
)
@pytest.mark.parametrize("secret", ["CANARY-4711-abcd", "canary0123456789"])
def test_v13_what_a_text_labels_is_gone(text: str, secret: str) -> None:
    """Headers, labelled values, bearers, cookies and members of queries are taken out, in prose and
    in JSON.
    """
    spelled = text.format(secret)
    for written in (
        spelled,
        f"line\n{spelled}\nnext",
        json.dumps(spelled),
        json.dumps({"a": json.dumps([spelled])}),
    ):
        assert secret not in redacted(written)


@pytest.mark.parametrize(
    "text",
    [
        "password: required",
        "def login(token: str, secret: bytes) -> None:",
        "the key: it opens the door",
        "GET /v1/models?page=2&code=200",
        "the bearer of bad news",
        "author: somebody, 1999",
    ],
)
def test_v13_a_label_alone_is_no_secret(text: str) -> None:
    """Words after a label, annotations and short members of a query stay."""
    assert redacted(text) == text
