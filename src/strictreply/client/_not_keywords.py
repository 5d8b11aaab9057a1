"""What type checkers say of a keyword that ``wrap`` does not take."""

from __future__ import annotations

from typing import Never, Protocol

from typing_extensions import TypeVar

Meant_co = TypeVar("Meant_co", bound=str, covariant=True)
Result_co = TypeVar("Result_co", covariant=True, default=Never)


class DidYouMean(Protocol[Meant_co, Result_co]):
    """The type of a keyword that is not ours, which no value has; its literal is what was meant.

    Where no overload fits, a type checker shows all of them. So the last overloads of ``wrap`` take
    any keyword, and the one error is that its value is not of this type. It is a protocol that
    every value would fit if its parameters were not known, since mypy shows only such an overload
    by itself; and as the comparison would never return, no value does.
    """

    def __ne__(self, other: object, /) -> Result_co: ...  # type: ignore[override]
