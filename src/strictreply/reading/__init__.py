"""Text to JSON, strictly: decoding, extraction from prose, and why a text is not JSON."""
