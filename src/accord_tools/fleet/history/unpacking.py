"""From the packed form of a run back to the run, see `parts`."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from accord.protocol.verdict import VerdictName
from accord.types import JsonObject
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.history.packing import CATALOG_COUNTS, CATALOGUE_TEXTS, SAME_MEMBERS
from accord_tools.fleet.history.parts import (
    LETTERS,
    NOT_ASKED,
    CatalogPart,
    FindingPart,
    PackedResult,
    PackedRun,
    ReportPart,
    RuleSetPart,
    TestPart,
    VerdictPart,
    WordingPart,
    expand,
)
from accord_tools.fleet.results import FleetRun, RuleSetStamp, RunComparison, ServerResult
from accord_tools.fleet.rule_set import RuleSet

_NAMES: Final = {letter: name for name, letter in LETTERS.items()}

Value = TypeVar("Value")
FindPart: TypeAlias = Callable[[str, type[Value]], Value | None]
"""Returns a part of a type by its digest."""


def unpack_rules(part: RuleSetPart) -> RuleSet:
    """Return a set of rules."""
    return RuleSet(part.version, frozenset(part.sorted_ids))


def unpack_letters(part: VerdictPart, rules: RuleSetPart) -> dict[str, VerdictName]:
    """Return all verdicts by requirement."""
    letters = expand(part.letters).decode()
    found = {
        id: _NAMES[letter]
        for id, letter in zip(rules.sorted_ids, letters, strict=True)
        if letter != NOT_ASKED
    }
    if part.others:
        found |= msgspec.json.decode(expand(part.others), type=dict[str, VerdictName])
    return found


def unpack_details(packed: PackedResult) -> dict[str, Any]:
    """Return the members of a result that have no attribute of their own in the packed form."""
    found: dict[str, Any] = msgspec.json.decode(expand(packed.details))
    return found


def unpack_result(packed: PackedResult, part: FindPart[Any]) -> ServerResult:
    """Return a result, with all its parts.

    Raises:
        FleetError: what is stored does not fit this version of accord, or a part is missing.
    """
    members = unpack_details(packed)
    verdicts = _demand(part, packed.verdicts, VerdictPart)
    findings = _demand(part, packed.findings, FindingPart)
    catalog = _demand(part, packed.catalog, CatalogPart)
    tests = _demand(part, packed.tests, TestPart)
    members |= {name: getattr(packed, name) for name in SAME_MEMBERS}
    members["tests"] = {
        "passed": packed.tests_passed,
        "failed": packed.tests_failed,
        "skipped": packed.tests_skipped,
        "no_time": members.pop("tests_no_time", 0),
        "failures": members.pop("failed_tests", ()),
        "names": {} if tests is None else msgspec.json.decode(expand(tests.names)),
    }
    if verdicts is not None:
        rules = _demand(part, verdicts.rules, RuleSetPart)
        members["verdicts"] = {} if rules is None else unpack_letters(verdicts, rules)
        members["breaches"] = verdicts.breaches
    if catalog is not None:
        counts = {name: getattr(packed, name) for name in CATALOG_COUNTS}
        entries = msgspec.json.decode(expand(catalog.entries))
        members["surface"] = {"digest": catalog.digest, "entries": entries, **counts}
    members["findings"] = () if findings is None else findings.findings
    try:
        return msgspec.convert(members, ServerResult, from_attributes=True)
    except msgspec.ValidationError as error:
        raise FleetError(f"the result of {packed.name} cannot be read: {error}") from None


def _demand(part: FindPart[Any], digest: str, kind: type[Value]) -> Value | None:
    if not digest:
        return None
    found: Value | None = part(digest, kind)
    if found is None:
        raise FleetError(f"the part {digest} of a stored run is missing")
    return found


def unpack_run(packed: PackedRun, part: FindPart[Any]) -> FleetRun:
    """Return a run, with all parts of its results.

    Raises:
        FleetError: what is stored does not fit this version of accord, or a part is missing.
    """
    findings = _demand(part, packed.findings, FindingPart)
    return FleetRun(
        id=packed.id,
        fleet=packed.fleet,
        file=packed.file,
        file_digest=packed.file_digest,
        started=packed.started,
        seconds=packed.seconds,
        accord=packed.accord,
        rules=RuleSetStamp(version=packed.rules_version, digest=packed.rules),
        jobs=packed.jobs,
        exit=packed.exit,
        origin=packed.origin,
        notes=packed.notes,
        left_out=packed.left_out,
        findings=() if findings is None else findings.findings,
        results=tuple(unpack_result(each, part) for each in packed.results),
    )


def unpack_comparison(packed: PackedRun) -> RunComparison | None:
    """Return how a run was compared when it was made."""
    if not packed.comparison:
        return None
    return msgspec.json.decode(expand(packed.comparison), type=RunComparison)


def unpack_catalog(part: CatalogPart) -> JsonObject | None:
    """Return a catalog; None if only its digests are known."""
    if not part.body:
        return None
    found: JsonObject = msgspec.json.decode(expand(part.body))
    return found


def unpack_report(part: ReportPart, wording: WordingPart | None) -> bytes:
    """Return a report as JSON, with the texts of the catalogue."""
    body = expand(part.body)
    texts = {} if wording is None else msgspec.json.decode(expand(wording.texts))
    if not texts:
        return body
    members = msgspec.json.decode(body)
    for each in members["results"]:
        found = zip(CATALOGUE_TEXTS, texts.get(each["id"], ()), strict=False)
        each |= {name: text for name, text in found if text is not None}
    return msgspec.json.encode(members)
