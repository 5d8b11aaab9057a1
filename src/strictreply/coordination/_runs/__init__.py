"""The state of a run: its fields, the next node, who waits for a human, and what is counted."""
