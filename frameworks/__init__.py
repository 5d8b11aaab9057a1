"""One small program for each framework, with one line that adds the guard.

Each is written as the framework's documentation writes it. It has ``run``
(and ``arun`` where the framework is async), which takes a tool
``search(query)`` and returns the answer. ``answer`` and ``aanswer`` are the
same with an answer of a declared type. ``stream`` and ``astream`` are the
same in the framework's streaming form; ``show`` is called with each piece of
text. ``tools/run_frameworks.py`` runs them against a model that writes a
malformed call first.
"""
