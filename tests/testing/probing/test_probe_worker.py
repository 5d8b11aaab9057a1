"""The worker calls an app, whatever it is made of.

It says what the app did without a word of the reply.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import http.client
import json
import re
import ssl
import struct
import urllib.error
from collections.abc import Callable
from decimal import InvalidOperation
from pathlib import Path
from typing import Any

import httpx
import pytest

from strictreply.testing import Fault, LoopbackServer, ScriptedModel, Step, ok
from strictreply.testing._probing.behaviour import Behaviour, judged
from strictreply.testing._probing.probe_worker import App, digest, is_clean, load, versions
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.survival import ProbeOutcome, Unusable
from support.loops import some
from support.testing.probing import sample_apps
from support.testing.probing.sample_apps import REFUND, Refused, Vouched

GOOD = ok.reply(REFUND)
BAD = CATALOGUE["trailing_comma"](REFUND)


def behaviour(
    function: Callable[..., Any], step: Step, *clean: type[BaseException], detailed: bool = False
) -> dict[str, Any]:
    """Call an app once while a step is served for ever."""
    with (
        LoopbackServer(ScriptedModel(then=step)) as server,
        contextlib.closing(App(function, server.base_url, clean)) as app,
    ):
        return app.behaviour(detailed=detailed)


STREAMS = ("streaming", "asynchronous_stream", "iterating", "AsynchronousPieces")


@pytest.mark.parametrize("name", ["strict", "asynchronous", *STREAMS])
def test_an_app_may_be_sync_or_async_or_stream(name: str) -> None:
    """It is called with the base URL, awaited and read to its end; the same reply gives the same
    digest again.
    """
    app = getattr(sample_apps, name)
    first = behaviour(app, GOOD)
    again = behaviour(app, GOOD)
    assert (first["outcome"], first["told"] in {"dict", "list"}) == ("accepted", True)
    assert first == again
    refused = behaviour(app, BAD)
    assert (refused["outcome"], ".Refused at " in refused["told"]) == ("clean", True)


def test_an_app_that_gives_nothing_for_a_bad_reply_is_seen() -> None:
    """None is judged as what it is, by the name that the worker gives it."""
    good = behaviour(sample_apps.silent, GOOD)
    bad = behaviour(sample_apps.silent, BAD)
    assert (
        judged(
            Behaviour(ProbeOutcome(bad["outcome"]), bad["told"], bad["digest"]), (), good["digest"]
        )[0]
        is ProbeOutcome.NOTHING
    )


def test_an_app_may_take_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A callable without parameters finds the server in the environment."""
    with LoopbackServer(ScriptedModel(then=GOOD)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert (
            App(sample_apps.from_environment, "unused", ()).behaviour(detailed=False)["outcome"]
            == "accepted"
        )


def optional(base_url: str = "none") -> str:
    """Take the base URL by its name."""
    return base_url


def settings(argv: str | None = None) -> str:
    """Have a parameter that is no base URL."""
    return f"called with {argv}"


@pytest.mark.parametrize(("function", "value"), [(optional, "URL"), (settings, "called with None")])
def test_a_default_is_replaced_only_by_name(function: Callable[..., Any], value: str) -> None:
    """A parameter with a default gets the base URL when it is named for it."""
    assert App(function, "URL", ()).behaviour(detailed=False)["digest"] == digest(value)


def test_an_app_that_needs_more_is_unusable() -> None:
    """A callable with two required parameters is refused with their names."""
    with pytest.raises(Unusable, match="other"):
        App(sample_apps.two_needed, "URL", ())


@pytest.mark.parametrize(
    ("error", "clean"),
    [
        *[
            (kind(), False)
            for kind in (
                KeyError,
                TypeError,
                AttributeError,
                IndexError,
                ValueError,
                RecursionError,
            )
        ],
        *[
            (kind(), False)
            for kind in (MemoryError, AssertionError, SystemExit, KeyboardInterrupt, RuntimeError)
        ],
        (json.JSONDecodeError("", "", 0), False),
        *[
            (kind(), False)
            for kind in (InvalidOperation, binascii.Error, struct.error, asyncio.CancelledError)
        ],
        *[(kind(), True) for kind in (http.client.HTTPException, ssl.SSLError)],
        (urllib.error.URLError(""), True),
        (UnicodeDecodeError("utf-8", b"", 0, 1, ""), False),
        (Refused(), True),
        (Vouched(), True),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (ExceptionGroup("", [Refused(), Refused()]), True),
        (ExceptionGroup("", [Refused(), KeyError()]), False),
        (BaseExceptionGroup("", [ExceptionGroup("", [Refused()])]), True),
    ],
)
def test_an_exception_is_clean_when_it_was_made_to_say_so(
    error: BaseException, clean: bool
) -> None:
    """Exceptions of Python's own are crashes; timeouts, connections and what no part of Python
    raises are clean.
    """
    assert is_clean(error, ()) is clean


def test_a_user_may_vouch_for_an_exception() -> None:
    """A class that was named is clean, and so are its children."""
    assert is_clean(KeyError(), (LookupError,))
    assert not is_clean(KeyError(), (TypeError,))


def test_a_crash_names_the_apps_own_line() -> None:
    """The place is the last line of the app's code, not one of a library; the traceback comes when
    it is asked for.
    """
    answer = behaviour(sample_apps.careless, BAD, detailed=True)
    raised, _, at = answer["told"].partition(" at ")
    assert (raised, answer["outcome"]) == ("JSONDecodeError", "crashed")
    file, _, line = at.rpartition(":")
    assert file.endswith("sample_apps.py")

    source = Path(sample_apps.__file__).read_text("utf-8").splitlines()
    assert "json.loads" in source[int(line) - 1]
    assert "sample_apps.py" in answer["traceback"]
    assert "worker.py" not in answer["traceback"]

    assert behaviour(sample_apps.careless, BAD)["traceback"] == ""


def test_a_crash_names_the_librarys_innermost_frame() -> None:
    """Below the app's line it is module, function and line of the library; nothing where the app
    itself raised.
    """
    crash = behaviour(sample_apps.careless, BAD)
    assert re.fullmatch(r"json\.decoder:JSONDecoder\.\w+:[0-9]+", crash["frame"])
    assert behaviour(sample_apps.crashing, BAD)["frame"] == ""
    clean = behaviour(sample_apps.strict, BAD)
    assert (clean["outcome"], clean["frame"]) == ("clean", "")


def deep(base_url: str) -> object:
    """Crash in the standard library, by way of another one."""
    return httpx.get(5)  # type: ignore[arg-type]


def test_a_frame_of_a_library_comes_before_one_of_python() -> None:
    """Where a library called the standard library, the library's own frame is the one that says
    something.
    """
    assert behaviour(deep, BAD)["frame"].startswith("httpx.")


def test_no_word_of_the_reply_is_told() -> None:
    """A worker's report holds nothing of the served reply, whatever the exception's text is."""
    for name in ("unquoted_string", "unknown_tool", "wrong_type", "prose_before"):
        for fault in some(CATALOGUE[name].all_for(REFUND)):
            assert isinstance(fault, Fault)
            told = json.dumps(behaviour(sample_apps.careless, fault))
            assert not any(word in told for word in fault.invented)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], [2, 1], False),
        (object(), object(), True),
        ("\ud800", "\ud800", True),
        (1, "1", False),
        (Refused("a"), Refused("b"), False),
    ],
)
def test_equal_values_have_equal_digests(one: object, other: object, same: bool) -> None:
    """Order of keys and addresses in memory do not count."""
    assert (digest(one) == digest(other)) is same


def test_what_cannot_be_written_has_a_digest_too() -> None:
    """A value that refuses to be written is told by its type, so that two of them are alike."""
    one: list[object] = []
    one.append(one)
    assert digest(one) == digest([one])
    assert digest(one) != digest([])


@pytest.mark.parametrize(
    "source", ["no_such_module:app", "testing.probing.sample_apps:nothing", "json:__name__"]
)
def test_what_cannot_be_loaded_is_said(source: str) -> None:
    """A missing module, a name it does not hold, and what cannot be called are unusable."""
    with pytest.raises(Unusable):
        load(source)


def test_versions_are_those_of_what_is_loaded() -> None:
    """Python is named, and the libraries that are imported."""
    assert {"Python", "strictreply", "pydantic"} <= set(versions())
