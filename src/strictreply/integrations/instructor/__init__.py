"""strictreply under or over instructor (1.17 or newer; ``pip install 'strictreply[instructor]'``).

Under instructor, a wrapped client guards every request, without this package. Over instructor,
:func:`wrap` makes an engine that calls instructor's providers with ``response_model``, reads each
raw reply strictly, and does the retries itself.
"""

from __future__ import annotations

from strictreply.integrations.instructor._engine import (
    AsyncInstructorEngine,
    Extracted,
    InstructorEngine,
    wrap,
)
from strictreply.integrations.instructor._provider_seam import from_instructor, to_instructor

__all__ = [
    "AsyncInstructorEngine",
    "Extracted",
    "InstructorEngine",
    "from_instructor",
    "to_instructor",
    "wrap",
]
