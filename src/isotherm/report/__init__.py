"""Pages and figures: one self-contained HTML page, interactive charts, the same charts as PNG. Never imports torch."""

from isotherm.report.charts import Dots, HeatMap, Heights, Histogram, Line, Lines, Points, Scatter, Span
from isotherm.report.page import Cell, Finding, Page, Thumbnail, number

__all__ = [
    "Cell",
    "Dots",
    "Finding",
    "HeatMap",
    "Heights",
    "Histogram",
    "Line",
    "Lines",
    "Page",
    "Points",
    "Scatter",
    "Span",
    "Thumbnail",
    "number",
]
