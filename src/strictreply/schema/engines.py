"""Which engine judges on this platform: jsonschema-rs, or jsonschema where it has no wheel."""

from __future__ import annotations

from importlib.util import find_spec

from strictreply.schema.documents import Document
from strictreply.schema.faults import Engine

HAS_RUST = find_spec("jsonschema_rs") is not None


def engine_for(document: Document, *, formats: bool) -> Engine:
    """Compile a document; raises ContractError that names the place when the engine cannot take it."""
    if HAS_RUST:
        from strictreply.schema.rust_engine import RustEngine  # noqa: PLC0415 - only the engine in use is imported

        return RustEngine(document, formats=formats)
    from strictreply.schema.reference_engine import ReferenceEngine  # noqa: PLC0415 - only the engine in use is imported

    return ReferenceEngine(document, formats=formats)


def refuse_malformed(document: Document) -> None:
    """Check a schema against its metaschema; raises ContractError that names the place."""
    if HAS_RUST:
        from strictreply.schema.rust_engine import refuse_malformed as refuse  # noqa: PLC0415 - only the engine in use is imported
    else:
        from strictreply.schema.reference_engine import refuse_malformed as refuse  # noqa: PLC0415 - only the engine in use is imported
    refuse(document)
