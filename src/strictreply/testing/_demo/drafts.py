"""What the model means to say and how it writes it: a target is the right thing, a draft the text that leaves it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from strictreply.schema import Schema
from strictreply.testing._targets import Place
from strictreply.values._json import JSON


@dataclass(frozen=True, slots=True)
class Draft:
    """One native call (``tool`` and the text of its arguments) or one content (``tool`` empty), as written.

    ``cut`` tells that the text ended at the token limit; it is not part of what was written.
    """

    tool: str
    text: str
    cut: bool = field(default=False, compare=False)

    @property
    def is_json(self) -> bool:
        """Tell whether the text is JSON as it stands."""
        try:
            json.loads(self.text)
        except (ValueError, RecursionError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Target:
    """One thing the model means to say.

    ``tool`` is the tool to call, empty for an answer; ``value`` the arguments or the answer; ``schema`` what holds for
    ``value``, None when that is plain text.
    """

    tool: str
    value: JSON
    schema: Schema | None
    place: Place

    @property
    def whole(self) -> JSON:
        """The JSON value that is written: with the union around it where there is one."""
        return self.around(self.value)

    def around(self, value: JSON) -> JSON:
        """Put arguments or an answer into what is written around them."""
        if self.place != "union":
            return value
        return {"tool": self.tool, "args": value} if self.tool else {"answer": value}

    def write(self, value: JSON) -> Draft:
        """Write this target with other arguments, or another answer."""
        return self.write_whole(self.around(value))

    def write_whole(self, whole: JSON) -> Draft:
        """Write a JSON value where this target is written."""
        text = str(whole) if self.place == "prose" else json.dumps(whole)
        return Draft(self.tool if self.place == "call" else "", text)

    @property
    def clean(self) -> Draft:
        """The draft without a fault."""
        return self.write(self.value)

    def is_met_by(self, draft: Draft) -> bool:
        """Tell whether a draft says what is right, however its JSON is spelled."""
        clean = self.clean
        if self.place == "prose" or not draft.is_json:
            return draft == clean
        return draft.tool == clean.tool and json.loads(draft.text) == self.whole
