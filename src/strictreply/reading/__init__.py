"""Text to JSON, strictly: decoding, what is wrong with a text that is no JSON, and extraction from prose."""
