"""The ids under which a server has stored the replies of which a caller was told another id."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from urllib.parse import unquote

from strictreply.values._limits import JSON, JSONObject
from strictreply.values._requests import Request

MAX_IDS = 4096
"""Of how many replies the ids are remembered."""


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

    def known_to_server(self, request: Request) -> Request:
        """Return a request that names the response before it as the server knows that."""
        id_ = None if request.follows is None else self._known.get(request.follows)
        return request if id_ is None else replace(request, follows=id_)

    def path_known_to_server(self, path: str) -> str:
        """Return the path of a stored response as the server knows that."""
        if not self._known:
            return path

        before, mark, query = path.partition("?")
        steps = [self._known.get(unquote(step), step) for step in before.split("/")]
        return "/".join(steps) + mark + query
