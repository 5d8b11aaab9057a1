"""Objects that look like replies and whose own code raises, wherever one looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NoReturn


class Raising:
    """An object without one attribute that can be read.

    It does not even say what it is a subclass of.
    """

    def __getattribute__(self, name: str) -> NoReturn:
        """Raise."""
        raise RuntimeError(name)


class LateRaising:
    """A message whose calls and content are there, but not to be looked at."""

    role = "assistant"

    @property
    def content(self) -> NoReturn:
        """Raise."""
        raise KeyError("content")

    @property
    def tool_calls(self) -> NoReturn:
        """Raise."""
        raise ZeroDivisionError


class RaisingMapping(Mapping[str, Any]):
    """A mapping that has members and gives none."""

    def __getitem__(self, key: str) -> NoReturn:
        """Raise."""
        raise OSError(key)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the members."""
        return iter(["next_action", "content"])

    def __len__(self) -> int:
        """Count them."""
        return 2


class RaisingDict(dict[str, Any]):
    """A dict whose reading methods raise."""

    def get(self, *args: Any) -> NoReturn:
        """Raise."""
        raise RuntimeError(args)

    items = values = keys = copy = __iter__ = __contains__ = get


class RaisingText(str):
    """A text whose methods raise."""

    __slots__ = ()

    def _raise(self, *args: Any, **keywords: Any) -> NoReturn:
        """Raise."""
        raise RuntimeError(args, keywords)

    strip = lstrip = encode = startswith = isascii = partition = find = __len__ = _raise


class Unequal:
    """A value that cannot be compared, counted or told true from false."""

    def __eq__(self, other: object) -> NoReturn:
        """Raise."""
        raise RuntimeError(other)

    def __bool__(self) -> NoReturn:
        """Raise."""
        raise RuntimeError

    __hash__ = object.__hash__


def hostile() -> list[object]:
    """Make one of each, and of messages, calls and actions that hold one."""
    final = {"next_action": "final_response"}
    function = SimpleNamespace(name="search", arguments=Raising())

    return [
        *(
            Raising(),
            LateRaising(),
            RaisingMapping(),
            RaisingDict(final),
            RaisingText("{}"),
            Unequal(),
        ),
        *(
            {**final, "content": value}
            for value in (Raising(), RaisingDict(x=1), RaisingText("x"), Unequal())
        ),
        {"next_action": Unequal()},
        {Unequal(): 1, "next_action": "final_response", "content": "x"},
        {"role": "assistant", "content": RaisingText('{"next_action": "x"}')},
        {"role": Unequal(), "content": "x"},
        SimpleNamespace(
            role="assistant", content=None, tool_calls=[SimpleNamespace(id="c", function=function)]
        ),
        SimpleNamespace(role="assistant", content=None, tool_calls=Unequal()),
        SimpleNamespace(choices=[SimpleNamespace(message=LateRaising(), finish_reason="stop")]),
        SimpleNamespace(role="error", content=Raising()),
    ]
