"""The server's ids of stored replies that the caller knows under another id."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from urllib.parse import unquote

from strictreply.values._limits import JSON, JSONObject
from strictreply.values._requests import Request

MAX_IDS = 4096
"""For how many replies the ids are remembered."""


class StoredIds:
    """The server's ids of replies, by the ids that the caller saw.

    The caller sees streamed text under the id of its response. If the rest of that response was
    rejected, a later response completes the reply, and the server has its calls only under the
    later id. At most :data:`MAX_IDS` ids are kept.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()

    def note(self, response: JSONObject, told_id: JSON) -> None:
        """Remember an accepted response, and the other id that the caller saw, None for none."""
        id_ = response.get("id")
        if not isinstance(id_, str):
            return

        self._known.pop(id_, None)  # the server may use an id again
        if isinstance(told_id, str) and told_id != id_:
            self._known[told_id] = id_
            while len(self._known) > MAX_IDS:
                self._known.popitem(last=False)

    def known_to_server(self, request: Request) -> Request:
        """Return a request that refers to the previous response by the server's id."""
        id_ = None if request.follows is None else self._known.get(request.follows)
        return request if id_ is None else replace(request, follows=id_)

    def path_known_to_server(self, path: str) -> str:
        """Return the path of a stored response with the server's id."""
        if not self._known:
            return path

        before, mark, query = path.partition("?")
        steps = [self._known.get(unquote(step), step) for step in before.split("/")]
        return "/".join(steps) + mark + query
