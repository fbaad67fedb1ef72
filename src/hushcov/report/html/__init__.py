"""The HTML report of a release: one self-contained page."""

from hushcov.report.html.page import report_page, write_report

__all__ = ["report_page", "write_report"]
