"""Write ``schemas/`` anew from the code; the tests of what is published fail while the two differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from strictreply.cli._published_schemas import published_schemas
from strictreply.pipeline._pipeline_schemas import pipeline_schemas
from strictreply.values._json import JSONObject

FOLDER = Path(__file__).resolve().parents[1] / "schemas"


def main() -> None:
    """Write the schemas of replies, and beside them those of the pipeline."""
    write(FOLDER, published_schemas())
    write(FOLDER / "pipeline", pipeline_schemas())


def write(folder: Path, schemas: Mapping[str, JSONObject]) -> None:
    """Write one file a schema, and drop those that are no more."""
    texts = {f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.json"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"wrote {', '.join(texts)}")


if __name__ == "__main__":
    main()
