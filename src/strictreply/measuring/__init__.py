"""How often do a model's first replies fit, and what fixes those that do not? It is measured.

:func:`measure` asks about rows; each :class:`Style` then asks once more for the same bad replies.
"""

from strictreply.measuring._measuring import MeasureProgress, measure
from strictreply.measuring._report import FirstReplies, MeasureReport, Recovery, percent, wilson
from strictreply.measuring._styles import STYLES, Reask, RecordedReply, RowRequest, Style, styles_of

__all__ = [
    "STYLES",
    "FirstReplies",
    "MeasureProgress",
    "MeasureReport",
    "Reask",
    "RecordedReply",
    "Recovery",
    "RowRequest",
    "Style",
    "measure",
    "percent",
    "styles_of",
    "wilson",
]
