"""The survival report: an app is run once per fault of the catalogue, and what it did is judged and told.

An app is a callable that takes a base URL, or a running service; it may be made with any SDK or framework.
"""

from __future__ import annotations
