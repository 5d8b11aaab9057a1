"""The frozen values that pass between the packages: issues, replies, attempts, errors, limits."""
