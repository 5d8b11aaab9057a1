"""JSON Schema as a graph of nodes, with its keywords, samples and engine."""

from strictreply.schema._closing import upgraded
from strictreply.schema._documents import Graph, Node, SchemaEdge, joined
from strictreply.schema._engines import SchemaParts, engine_for
from strictreply.schema._explaining import nearest, proposals
from strictreply.schema._vocabulary import FORMAT_SAMPLES, KEYWORDS, Applies, json_type

__all__ = [
    "FORMAT_SAMPLES",
    "KEYWORDS",
    "Applies",
    "Graph",
    "Node",
    "SchemaEdge",
    "SchemaParts",
    "engine_for",
    "joined",
    "json_type",
    "nearest",
    "proposals",
    "upgraded",
]
