"""The seam of one call: like a client of ours, but each ask is one attempt of instructor's.

Each ask goes through instructor's own ``create`` and leaves it as soon as the reply is there: it neither parses the
reply, nor logs it, nor asks again. Our corrections stand where its own would: behind the request that it prepared,
after its templates, so that no words of the model's are ever read as a template.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from json import JSONDecodeError
from types import SimpleNamespace
from typing import Any

from strictreply.integrations.instructor._dialects import Dialect
from strictreply.integrations.instructor._library import load
from strictreply.values._json import JSONObject, Message

MADE_BY_INSTRUCTOR = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
"""What instructor makes of a response model itself: of our requests it is left out."""

_UNREADABLE = (JSONDecodeError, UnicodeDecodeError, RecursionError)
"""What the SDKs' readers raise for a body that is no JSON, or nested too deep for them."""


class _Came(BaseException):
    """Carries the flow out of instructor when a reply is there: hooks swallow exceptions, but not this."""


class Seam(ABC):
    """What both twins share: spelling a request for instructor, and getting the raw reply out of it.

    ``sent`` is the last request as instructor sent it, ``came`` the provider's own object that came back, or None.
    """

    def __init__(self, client: Any, dialect: Dialect, messages: list[Message], own: JSONObject) -> None:
        """Hold the caller's ``messages``, and the keywords that are instructor's ``own``."""
        self.sent: JSONObject = {}
        self.came: Any = None
        self._client = client
        self._dialect = dialect
        self._messages = messages
        self._own = own
        self._spent: type[Exception] = load("instructor.core").InstructorRetryException
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    @abstractmethod
    def create(self, **request: Any) -> Any:
        """Make one ask; each twin in its own way."""

    def _keywords(self, request: JSONObject) -> JSONObject:
        """Spell a request of ours for instructor: what it makes of the response model itself is left out."""
        self.came = None
        turns = self._dialect.turns(request["messages"][len(self._messages) :])
        kept = {name: value for name, value in request.items() if name not in (*MADE_BY_INSTRUCTOR, "messages")}
        one = {"messages": self._messages, "max_retries": 0, "cache": None, "hooks": self._hooks(turns)}
        return kept | self._own | one

    def _hooks(self, turns: list[Message]) -> Any:
        """Add our turns before the client's hooks see the request, and stop after they have seen the reply."""
        kind = load("instructor.core").Hooks
        before, after = kind(), kind()
        before.on("completion:kwargs", partial(self._extend, turns))
        after.on("completion:response", self._stop)
        return before + self._client.hooks + (self._own.get("hooks") or kind()) + after

    def _extend(self, turns: list[Message], /, **prepared: Any) -> None:
        """Extend the request in place, as instructor's own corrections do, and keep what is sent."""
        prepared["messages"].extend(turns)
        self.sent = prepared | {"messages": list(prepared["messages"])}

    def _stop(self, response: Any) -> None:
        """Keep the raw reply, and leave instructor."""
        self.came = response
        raise _Came

    @contextmanager
    def _one_attempt(self) -> Generator[None]:
        """Let a reply out of instructor, and what the provider's SDK raised out of instructor's exception.

        A body that the SDK cannot read is a reply that is none.
        """
        failed: BaseException
        try:
            yield
        except _Came:
            return
        except self._spent as error:
            failed = error.__cause__ or error
        else:
            return
        if not isinstance(failed, _UNREADABLE):
            raise failed from failed.__cause__  # without the exception around it, which says the same

    def _judged(self) -> Any:
        """Give the reply in the shape that is judged."""
        return self._dialect.completion(self.came)


class SyncSeam(Seam):
    """The seam under a sync engine."""

    def create(self, **request: Any) -> Any:
        """Make one ask."""
        with self._one_attempt():
            self._client.create_fn(**self._keywords(request))
        return self._judged()


class AsyncSeam(Seam):
    """The seam under an async engine."""

    async def create(self, **request: Any) -> Any:
        """Make one ask."""
        with self._one_attempt():
            await self._client.create_fn(**self._keywords(request))
        return self._judged()
