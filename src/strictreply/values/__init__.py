"""What passes between the packages, as frozen values: issues, replies, attempts, errors and limits."""
