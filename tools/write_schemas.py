"""Write ``schemas/`` anew from the code; ``tests/test_published.py`` fails while the two differ."""

from __future__ import annotations

import json
from pathlib import Path

from strictreply.published import published_schemas

FOLDER = Path(__file__).resolve().parents[1] / "schemas"


def main() -> None:
    """Write one file a schema, and drop those that are no more."""
    texts = {f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in published_schemas().items()}
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"wrote {', '.join(texts)}")


if __name__ == "__main__":
    main()
