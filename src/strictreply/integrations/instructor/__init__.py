"""strictreply and instructor (1.17 or newer; ``pip install 'strictreply[instructor]'``), in either order.

*Under*: a wrapped client guards every ask that instructor makes; nothing of this package is needed for it::

    create = instructor.patch(create=strictreply.wrap(OpenAI()).chat.completions.create)

*Over*: :func:`wrap` makes an engine that reaches instructor's providers with ``response_model``, reads each raw reply
strictly, and owns the retries::

    engine = strictreply.integrations.instructor.wrap(instructor.from_provider("anthropic/…"))
    user = engine.create(response_model=User, messages=[…])

:func:`from_instructor` and :func:`to_instructor` turn the errors of one into those of the other.
"""

from __future__ import annotations

from strictreply.integrations.instructor._engine import AsyncInstructorEngine, Extracted, InstructorEngine, wrap
from strictreply.integrations.instructor._provider_seam import from_instructor, to_instructor

__all__ = ["AsyncInstructorEngine", "Extracted", "InstructorEngine", "from_instructor", "to_instructor", "wrap"]
