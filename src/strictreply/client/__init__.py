"""The SDK around the loop: the wrapped client, its transport, and the guards of every way out."""
