"""One app for each library, all doing the job of ``probes.job``.

``strictreply probe`` is run on them for docs/survival.md.

Each is written as its library's documentation would have it written, with the library's own
defaults for retries and validation; ``tools/probe_peers.py`` runs them, each in the environment its
library is locked in.
"""
