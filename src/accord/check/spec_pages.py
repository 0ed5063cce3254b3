"""Which page of the specification states a requirement."""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from accord.protocol.catalogue import Requirement
from accord.protocol.revisions import REVISIONS
from accord.types import RevisionId

_PAGE: Final = re.compile(r"(\d{4}-\d\d-\d\d)/(.+)")
_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d")


def anchor(row: Requirement, revision: RevisionId) -> str | None:
    """Return the page of a revision that states a requirement; else the newest page before it.

    If the catalogue names a page of a later revision, the page of the same path in this revision
    is returned, if it exists: a reader must find the clause there.
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
    """Return the path of a page in a revision, if the revision has the page."""
    found = _PAGE.fullmatch(source)
    if found is None or not REVISIONS[revision].handshake:
        return None
    pages, path = _pages(), found[2]
    for later, before in pages.earlier_names.items():
        if path.startswith(later):
            path = before
    since = pages.since.get(path)
    return path if since is not None and since <= revision else None


class _Pages(msgspec.Struct, frozen=True):
    since: dict[str, str]
    earlier_names: dict[str, str]


@cache
def _pages() -> _Pages:
    text = files("accord.check").joinpath("pages.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Pages)


def _is_later(source: str, revision: RevisionId) -> bool:
    dated = _DATED.match(source)
    return dated is not None and dated[0] > revision
