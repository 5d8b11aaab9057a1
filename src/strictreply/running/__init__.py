"""Runs of the tool loop: the pipeline's turn performed, in this thread or awaiting, with a store behind it."""
