"""Reports as one page for a browser."""

from accord.check.report import Report

__all__ = ["as_html"]


def as_html(report: Report) -> str:
    """Return the report as one page."""
    return f"<!doctype html><title>{report.version}</title>\n"
