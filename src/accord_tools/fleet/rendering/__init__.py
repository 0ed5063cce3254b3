"""The forms of a fleet's report: pure functions from a view to a string, and a folder of pages.

Texts of servers are hostile: each form escapes them for its medium.
"""

from accord_tools.fleet.results import FleetView
from accord_tools.reports.delivery import find_renderer


def render_fleet(view: FleetView, form: str) -> str:
    """Return a view in one of the forms.

    Args:
        view: the run and all that is known beside it.
        form: a name in `accord_tools.reports.delivery.FORMS`.
    """
    return find_renderer(form, __name__)(view)
