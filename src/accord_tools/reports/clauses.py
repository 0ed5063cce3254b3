"""What a requirement says under a revision, as all reports show it, and where it is stated."""

import re
import tomllib
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec

from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.revisions import REVISIONS
from accord.types import RevisionId

_SOURCE: Final = re.compile(r"(\d{4}-\d\d-\d\d)/(.+)")
_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d")
_PAGE: Final = re.compile(r"(\d{4}-\d\d-\d\d)((?:/[a-z0-9-]+)+)")
_SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/"


class Clause(NamedTuple):
    """A requirement under one revision; most of it is empty if the catalogue lacks it.

    Attributes:
        level: MUST, SHOULD and so on.
        party: the party that it binds.
        text: what it says.
        mend: what the author of the party at fault should change.
        anchor: the page of the specification.
        page: the address of that page; None if it is not known.
    """

    level: str = ""
    party: str = ""
    text: str = "not in the catalogue"
    mend: str = ""
    anchor: str | None = None
    page: str | None = None


@lru_cache(4096)
def clause_of(id: str, revision: RevisionId) -> Clause:
    """Return what a requirement says under a revision."""
    row = catalogue().get(id)
    if row is None:
        return Clause()
    level = row.level_in(revision) if revision in REVISIONS else row.level
    source = anchor(row, revision)
    return Clause(level, row.party, row.text, row.mend, source, page_of(source))


def page_of(anchor: str | None) -> str | None:
    """Return the URL of a page of the specification; None if it is not a page."""
    found = None if anchor is None else _PAGE.fullmatch(anchor)
    return None if found is None else f"{_SPECIFICATION}{found[1]}{found[2].removesuffix('/index')}"


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
    found = _SOURCE.fullmatch(source)
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
    text = files("accord_tools.reports").joinpath("pages.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Pages)


def _is_later(source: str, revision: RevisionId) -> bool:
    dated = _DATED.match(source)
    return dated is not None and dated[0] > revision
