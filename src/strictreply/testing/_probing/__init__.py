"""The survival report: an app is run once per fault of the catalogue, and what it did is judged and reported."""
