"""What differs between the catalogs of two runs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from accord.types import JsonObject
from accord_tools.fleet.results import CatalogChange, CatalogSummary, RunDifference

FindCatalog: TypeAlias = Callable[[str], JsonObject | None]
"""Returns a catalog by its digest; None if it is unknown."""
FindChanges: TypeAlias = Callable[[JsonObject, JsonObject], Sequence[CatalogChange]]
"""Returns the differences between two catalogs."""

# Of each kind; a server may change thousands of tools at once.
_MOST: Final = 50


def compare_catalogs(
    server: str,
    before: CatalogSummary | None,
    after: CatalogSummary | None,
    catalogs: FindCatalog | None,
    find_changes: FindChanges | None,
) -> Iterator[RunDifference]:
    """Yield the differences: breaking ones first, then others that a client may notice."""
    if before is None or after is None or before.digest == after.digest:
        return
    old, new = _find_both(before, after, catalogs)
    if find_changes is not None and old is not None and new is not None:
        changes = list(find_changes(old, new))
    else:
        changes = list(_compare_entries(before, after))
    breaking = [each for each in changes if each.kind == "breaking"]
    others = [each for each in changes if each.kind != "breaking"]
    yield from _name_changes(server, breaking, is_breaking=True)
    yield from _name_changes(server, others, is_breaking=False)
    if not changes:
        yield RunDifference(kind="surface-changed", server=server, text="the surface changed")


def _find_both(
    before: CatalogSummary, after: CatalogSummary, catalogs: FindCatalog | None
) -> tuple[JsonObject | None, JsonObject | None]:
    if catalogs is None:
        return None, None
    return catalogs(before.digest), catalogs(after.digest)


def _compare_entries(before: CatalogSummary, after: CatalogSummary) -> Iterator[CatalogChange]:
    """Compare digests of entries, where the catalogs themselves are not known."""
    for subject in sorted(before.entries.keys() | after.entries.keys()):
        old, new = before.entries.get(subject), after.entries.get(subject)
        if new is None:
            yield CatalogChange(kind="breaking", subject=subject, what="removed")
        elif old is None:
            yield CatalogChange(kind="compatible", subject=subject, what="added")
        elif old != new:
            yield CatalogChange(kind="compatible", subject=subject, what="changed")


def _name_changes(
    server: str, changes: Sequence[CatalogChange], *, is_breaking: bool
) -> Iterator[RunDifference]:
    for each in changes[:_MOST]:
        text = f"{each.subject}: {each.what}"
        yield _difference(server, each.subject, text, is_breaking=is_breaking)
    if len(changes) > _MOST:
        text = f"and {len(changes) - _MOST} further changes"
        yield _difference(server, "", text, is_breaking=is_breaking)


def _difference(server: str, subject: str, text: str, *, is_breaking: bool) -> RunDifference:
    return RunDifference(
        kind="surface-breaking" if is_breaking else "surface-changed",
        server=server,
        subject=subject,
        text=text,
    )
