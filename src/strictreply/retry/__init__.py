"""The loop around a call: ask, judge, correct, stop. No I/O happens here."""
