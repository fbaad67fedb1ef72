"""The page and the figures of a release.

Everything in them is computed from the release and from public inputs, and covered by its
guarantee. A page needs jinja2 and a figure matplotlib, of the extra `report`; they are imported
when used.
"""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy

if TYPE_CHECKING:
    from hushcov.report.figures import write_release_heatmap
    from hushcov.report.pages import check_pages
    from hushcov.report.sections import report_page, write_report

__getattr__ = lazy(
    __name__,
    figures="write_release_heatmap",
    pages="check_pages",
    sections="report_page write_report",
)
