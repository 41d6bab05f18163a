"""Drawing: charts become pictures."""

from vitbench.report.drawing.draw import draw

__all__ = ["draw"]
