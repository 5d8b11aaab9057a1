"""``python -m strictreply``: the same as the ``strictreply`` command."""

from __future__ import annotations

from strictreply.cli import main

if __name__ == "__main__":
    main()
