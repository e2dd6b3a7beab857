"""The verdict as one HTML file that works offline."""

from __future__ import annotations

from unhang.report.html.page import to_html, write_html

__all__ = ["to_html", "write_html"]
