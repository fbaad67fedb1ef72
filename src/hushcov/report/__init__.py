"""Pages and figures: the report of a release, heat maps, forecasts.

They need the extra `report` (jinja2 and matplotlib), which is imported when it is used.
"""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy

if TYPE_CHECKING:
    from hushcov.report.figures import write_plan_figure, write_release_heatmap
    from hushcov.report.pages import check_pages
    from hushcov.report.sections import report_page, write_report

__getattr__ = lazy(
    __name__,
    figures="write_plan_figure write_release_heatmap",
    pages="check_pages",
    sections="report_page write_report",
)
