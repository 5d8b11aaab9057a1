"""The survival report: the app is run once per fault of the catalogue, and each run is judged."""
