"""The forms of a fleet's report: pure functions from a view to a string, and a folder of pages.

Texts of servers are hostile: each form escapes them for its medium.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from accord_tools.fleet.results import FleetView

if TYPE_CHECKING:
    from collections.abc import Callable


class FleetForm(NamedTuple):
    """A form of a fleet's report: its function in this package, the endings of its files."""

    function: str
    endings: tuple[str, ...]


FORMS: Final[dict[str, FleetForm]] = {
    "text": FleetForm("text.as_text", (".txt",)),
    "html": FleetForm("page.as_html", (".html", ".htm")),
    "json": FleetForm("machine_readable.as_json", (".json",)),
    "junit": FleetForm("machine_readable.as_junit", (".xml",)),
    "sarif": FleetForm("sarif.as_sarif", (".sarif", ".sarif.json")),
    "markdown": FleetForm("markdown.as_markdown", (".md", ".markdown")),
    "csv": FleetForm("machine_readable.as_csv", (".csv",)),
    "ndjson": FleetForm("machine_readable.as_ndjson", (".ndjson", ".jsonl")),
    "openmetrics": FleetForm("machine_readable.as_openmetrics", (".prom", ".openmetrics")),
    "badge": FleetForm("site.as_badge", (".svg",)),
}
"""The forms by name; the longest ending that fits the name of a file wins."""


def render_fleet(view: FleetView, form: str) -> str:
    """Return a view in one of the forms.

    Args:
        view: the run and all that is known beside it.
        form: a name in `FORMS`.
    """
    module, name = FORMS[form].function.split(".")
    render: Callable[[FleetView], str] = getattr(
        import_module(f"accord_tools.fleet.rendering.{module}"), name
    )
    return render(view)


def form_of(name: str) -> str | None:
    """Return the form that the ending of a file's name stands for; None if it stands for none."""
    fitting = [
        (len(ending), form)
        for form, (_, endings) in FORMS.items()
        for ending in endings
        if name.lower().endswith(ending)
    ]
    return max(fitting)[1] if fitting else None
