"""Where the specification states a requirement, in the pages of the revision that was judged."""

import re
from typing import Final

from accord.protocol.catalogue import Requirement
from accord.types import RevisionId

__all__ = ["anchor"]

_PAGE: Final = re.compile(r"(\d{4}-\d\d-\d\d)/(.+)")
_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d")
_NEW_LAYOUT: Final = "2026-07-28"
# The revisions before that one have these pages, and some of them only from a revision on.
_PAGES: Final = {
    "basic/authorization": "2025-03-26",
    "basic/index": "2024-11-05",
    "basic/lifecycle": "2024-11-05",
    "basic/transports": "2024-11-05",
    "basic/utilities/cancellation": "2024-11-05",
    "basic/utilities/ping": "2024-11-05",
    "basic/utilities/progress": "2024-11-05",
    "basic/utilities/tasks": "2025-11-25",
    "client/elicitation": "2025-06-18",
    "client/roots": "2024-11-05",
    "client/sampling": "2024-11-05",
    "schema": "2025-06-18",
    "server/prompts": "2024-11-05",
    "server/resources": "2024-11-05",
    "server/tools": "2024-11-05",
    "server/utilities/completion": "2024-11-05",
    "server/utilities/logging": "2024-11-05",
    "server/utilities/pagination": "2024-11-05",
}
# What later pages were called before, from the beginning of their path.
_EARLIER_NAMES: Final = {
    "basic/patterns/cancellation": "basic/utilities/cancellation",
    "basic/patterns/progress": "basic/utilities/progress",
    "basic/transports/": "basic/transports",
    "basic/authorization/": "basic/authorization",
}


def anchor(row: Requirement, revision: RevisionId) -> str | None:
    """Return where the document of a revision states a row; else the newest one before it.

    A page of a later revision is named only if this one has the same page, and then that of this
    one: whoever looks there must find the clause.
    """
    own = [each for each in row.source if each.startswith(revision)]
    if own:
        return own[0]
    if revision in row.revisions or revision in row.also:
        for source in row.source:
            page = _page_in(source, revision)
            if page is not None:
                return f"{revision}/{page}"
    earlier = [each for each in row.source if not _is_later(each, revision)]
    return earlier[-1] if earlier else None


def _page_in(source: str, revision: RevisionId) -> str | None:
    """Return the page of a revision that has the path of a page of another one."""
    found = _PAGE.fullmatch(source)
    if found is None or revision >= _NEW_LAYOUT:
        return None
    path = found[2]
    for later, before in _EARLIER_NAMES.items():
        if path.startswith(later):
            path = before
    return path if path in _PAGES and _PAGES[path] <= revision else None


def _is_later(source: str, revision: RevisionId) -> bool:
    dated = _DATED.match(source)
    return dated is not None and dated[0] > revision
