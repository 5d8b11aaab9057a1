"""Routes that were decided before, by everything they were decided by; decisions that follow a fault are never kept."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from typing import Final, Self

from strictreply.coordination._actions.branches import Branch, BranchType
from strictreply.coordination._actions.kinds import ActionType
from strictreply.coordination._replies.results import ValidationResult
from strictreply.coordination._topology.graph import Topology
from strictreply.coordination.routing._decisions import RoutingDecision
from strictreply.values._attempts import plain
from strictreply.values._errors import ContractError

MAX_ROUTES: Final = 1_024
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class RouteKey:
    """What a route depends on (requirements M112, X29).

    ``topology_version`` changes with every edge, so no permission outlives the topology that gave it. ``branch`` is
    the branch without its id, ``content`` a hash of all that the reply asks for and of who asked.
    """

    topology_version: str
    agent: str
    branch_type: BranchType
    action: ActionType | None
    branch: Branch
    content: str

    @classmethod
    def of(cls, topology: Topology, agent: str, branch: Branch, result: ValidationResult) -> Self:
        """Make the key of what ``agent`` asked for in ``branch``."""
        asked = [asdict(invocation) for invocation in result.invocations]
        content = json.dumps(plain([result.origin, result.parsed_response, asked, result.tool_calls]), sort_keys=True)
        digest = hashlib.blake2b(content.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        return cls(topology.version, agent, branch.type, result.action_type, replace(branch, id=""), digest)


class RouteCache:
    """The routes asked for last, at most ``max_routes`` of them; any thread or task may ask.

    Decisions go in and come out as copies, so that nobody changes a kept one. For executors that add to a decision what
    is dear to find out: a :class:`Router` alone decides faster than any key can be made, and so keeps nothing itself.
    """

    __slots__ = ("_lock", "_routes", "max_routes")

    def __init__(self, max_routes: int = MAX_ROUTES) -> None:
        """Start empty; ContractError for a bound below 1."""
        if isinstance(max_routes, bool) or max_routes < 1:
            raise ContractError("RouteCache.max_routes must be a whole number, 1 or more")
        self.max_routes = max_routes
        self._routes: OrderedDict[Hashable, RoutingDecision] = OrderedDict()
        self._lock = threading.Lock()

    def get_route(self, key: Hashable) -> RoutingDecision | None:
        """Give the decision kept under ``key``, None when there is none."""
        with self._lock:
            kept = self._routes.get(key)
            if kept is None:
                return None
            self._routes.move_to_end(key)
        return copy.deepcopy(kept)

    def set_route(self, key: Hashable, route: RoutingDecision) -> None:
        """Keep a decision, unless it follows a fault; the one asked for longest ago makes room."""
        if route.follows_fault():
            return
        kept = copy.deepcopy(route)
        with self._lock:
            self._routes[key] = kept
            self._routes.move_to_end(key)
            if len(self._routes) > self.max_routes:
                self._routes.popitem(last=False)

    def clear(self) -> None:
        """Forget all routes."""
        with self._lock:
            self._routes.clear()

    def __len__(self) -> int:
        """Count the kept routes."""
        return len(self._routes)
