"""Findings of the lint for people: what is said about several entries of a server is said once."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from accord_tools.fleet.outcome import is_warning
from accord_tools.fleet.rendering.wording import all_findings
from accord_tools.fleet.results import CatalogFinding, FleetRun

# Before it a finding says what is wrong, after it what to change.
_ADVICE: Final = "; "


class FindingGroup(NamedTuple):
    """Findings with one id about one server.

    Attributes:
        id: of the findings.
        server: which; empty is the fleet as a whole.
        subjects: the entries; with what is wrong in each, where that differs.
        text: what is wrong and what to change, as far as it is the same for all.
    """

    id: str
    server: str
    subjects: tuple[str, ...]
    text: str


def counted_findings(run: FleetRun) -> list[CatalogFinding]:
    """Return the warnings that are not accepted, those about several servers first."""
    return list(filter(is_warning, all_findings(run)))


def group_findings(findings: Iterable[CatalogFinding]) -> list[FindingGroup]:
    """Return findings in groups, in the order of the first of each."""
    groups: dict[tuple[str, str, str], list[CatalogFinding]] = {}
    for each in findings:
        # A finding about no entry stands alone.
        key = each.text.partition(_ADVICE)[2] or each.text if each.subject else each.text
        groups.setdefault((each.server, each.id, key), []).append(each)
    return [_make_group(found) for found in groups.values()]


def _make_group(found: list[CatalogFinding]) -> FindingGroup:
    first = found[0]
    if all(each.text == first.text for each in found):
        named = tuple(dict.fromkeys(each.subject for each in found if each.subject))
        return FindingGroup(first.id, first.server, named, first.text)
    parts = [(each.subject, *each.text.partition(_ADVICE)) for each in found]
    subjects = tuple(f"{subject} ({wrong})" for subject, wrong, _, _ in parts)
    return FindingGroup(first.id, first.server, subjects, parts[0][3])
