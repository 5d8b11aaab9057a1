"""Client libraries: how each is guarded, called, and answered in its own objects."""
