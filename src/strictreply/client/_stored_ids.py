"""The ids under which a server has stored the replies of which a caller was told another id."""

from __future__ import annotations

from collections import OrderedDict
from urllib.parse import unquote

from strictreply.values._limits import JSON, JSONObject

MAX_IDS = 4096
"""Of how many replies the ids are remembered."""

_NAMES_ANOTHER = "previous_response_id"


class StoredIds:
    """The ids that a server knows, by those that a caller was told.

    A text that was shown is told under the id of its response. When the rest of that response was
    refused, the reply is of a later response, and only under the id of that one does the server
    have its calls. At most :data:`MAX_IDS` are kept.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()

    def note(self, response: JSONObject, told_id: JSON) -> None:
        """Remember an accepted response, and the other id that was told of it, None for none."""
        id_ = response.get("id")
        if not isinstance(id_, str):
            return

        self._known.pop(id_, None)  # a server that counts anew
        if isinstance(told_id, str) and told_id != id_:
            self._known[told_id] = id_
            while len(self._known) > MAX_IDS:
                self._known.popitem(last=False)

    def known_to_server(self, request: JSONObject) -> JSONObject:
        """Return a request that names the response before it as the server knows that."""
        named = request.get(_NAMES_ANOTHER)
        id_ = self._known.get(named) if isinstance(named, str) else None
        return request if id_ is None else request | {_NAMES_ANOTHER: id_}

    def path_known_to_server(self, path: str) -> str:
        """Return the path of a stored response as the server knows that."""
        if not self._known:
            return path

        before, mark, query = path.partition("?")
        steps = [self._known.get(unquote(step), step) for step in before.split("/")]
        return "/".join(steps) + mark + query
