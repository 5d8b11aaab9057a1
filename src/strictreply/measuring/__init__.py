"""How often do a model's first replies fit, and what fixes those that do not? It is measured.

:func:`measure` asks about rows; each :class:`Style` then asks once more for the same bad replies.
"""

from strictreply.measuring._measuring import Progress, measure
from strictreply.measuring._report import FirstReplies, MeasureReport, Recovery, percent, wilson
from strictreply.measuring._styles import STYLES, BadReply, FirstRequest, Reask, Style, styles_of

__all__ = [
    "STYLES",
    "BadReply",
    "FirstReplies",
    "FirstRequest",
    "MeasureReport",
    "Progress",
    "Reask",
    "Recovery",
    "Style",
    "measure",
    "percent",
    "styles_of",
    "wilson",
]
