"""An instrumented client and what it recorded, spans and metrics, in memory."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

from tenacity import wait_none

import strictreply as sr
from strictreply.integrations.otel import instrument
from support.scripted import SCHEMA, USER, Server, call, completion
from support.tracers.recorders import spans

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
WRONG = completion(calls=[call("search", {"query": "tea", "limit": 99})])
GOOD = completion(calls=[call("search", {"query": "tea", "limit": 9})], tokens=(20, 7))
ASK: dict[str, Any] = {"model": "m", "messages": USER, "temperature": 0.5, "max_tokens": 40}
POLICY = sr.RetryPolicy(wait=wait_none())
PLACE = {"gen_ai.provider.name": "openai", "server.address": "model.invalid", "server.port": 80}
ON_ALL = {*PLACE, "gen_ai.request.model", "strictreply.mode"}


class Recorded:
    """An instrumented client of either twin, and what it recorded."""

    def __init__(self, server: Server, twin: str = "sync", **settings: Any) -> None:
        """Wrap and instrument a client.

        ``asks`` and ``attributes`` are those of ``instrument``, the rest goes to ``wrap``.
        """
        chosen = {name: settings.pop(name, None) for name in ("asks", "attributes")}
        patch: Callable[[Any], Any] = settings.pop("patch", lambda client: client)
        self.provider, self.kept = spans()
        metrics = "opentelemetry.sdk.metrics"

        export = "opentelemetry.sdk.metrics.export"
        self.reader: Any = importlib.import_module(export).InMemoryMetricReader()
        meters = importlib.import_module(metrics).MeterProvider([self.reader])
        inner = patch(server.client() if twin == "sync" else server.async_client())
        wrapped = sr.wrap(inner, **{"tools": [SEARCH], "policy": POLICY, **settings})
        self.client = instrument(
            wrapped, tracer_provider=self.provider, meter_provider=meters, **chosen
        )

    def reply(self, **more: Any) -> Any:
        """Ask for a reply."""
        result = self.client.reply(**ASK, **more)

        async def awaited() -> Any:
            return await result

        return asyncio.run(awaited()) if inspect.isawaitable(result) else result

    @property
    def spans(self) -> dict[str, Any]:
        """The spans that ended, as name → attributes; of equal names the second gets a star."""
        found: dict[str, Any] = {}
        for span in sorted(self.kept.get_finished_spans(), key=lambda one: one.start_time):
            name = span.name
            while name in found:
                name += "*"
            found[name] = span
        return found

    @property
    def points(self) -> list[tuple[str, Any]]:
        """The points of all metrics, each with the name of its metric."""
        data = self.reader.get_metrics_data()
        metrics = () if data is None else data.resource_metrics[0].scope_metrics[0].metrics
        return [(metric.name, point) for metric in metrics for point in metric.data.data_points]

    @property
    def counts(self) -> Counter[tuple[str, ...]]:
        """The metrics: (name, values of what tells its points apart) → sum, or records."""
        found: Counter[tuple[str, ...]] = Counter()
        for name, point in self.points:
            told = [
                str(value) for key, value in sorted(point.attributes.items()) if key not in ON_ALL
            ]
            found[name, *told] += point.count if hasattr(point, "count") else point.value

        return found
