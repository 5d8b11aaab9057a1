"""The survival report: an app is run once per fault of the catalogue, and judged each time."""
