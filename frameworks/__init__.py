"""One small program for each framework, as its documentation writes it, with one line that puts the guard in.

Each has ``run`` (and ``arun`` where the framework is async): it takes a tool ``search(query)`` and
returns the answer. ``answer`` and ``aanswer`` are the same with an answer of a declared type.
``stream`` and ``astream`` are the same in the framework's streaming form; ``show`` is called with
each piece of text. ``tools/run_frameworks.py`` runs them against a model that writes a malformed
call first.
"""
