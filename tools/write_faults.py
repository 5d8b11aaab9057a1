"""Write ``docs/faults.md`` anew from the code; a test fails while the two differ."""

from __future__ import annotations

from pathlib import Path

from strictreply.testing._probing.specimens import catalogue_page
from strictreply.testing.shop_scenario import SCENARIO

PAGE = Path(__file__).resolve().parents[1] / "docs" / "faults.md"


def main() -> None:
    """Write the page."""
    PAGE.write_text(catalogue_page(SCENARIO.tools), encoding="utf-8")
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
