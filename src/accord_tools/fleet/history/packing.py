"""Runs in the form in which they are kept: small, with every repeated part once.

Most servers are the same from run to run. What repeats is a part of its own, named by its digest:
the verdicts on a server, its findings, tests and catalog, and the report. A run then holds little
more than numbers and the digests of its parts.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from accord.protocol.verdict import VerdictName
from accord.types import JsonObject, RevisionId
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.results import (
    CatalogFinding,
    CatalogSummary,
    FleetRun,
    FleetView,
    RequirementBreach,
    RuleSetStamp,
    RunComparison,
    RunOrigin,
    ServerDocuments,
    ServerResult,
    ServerState,
)
from accord_tools.fleet.rule_set import RuleSet

LETTERS: Final[Mapping[VerdictName, str]] = {
    "pass": "p",
    "fail": "f",
    "warn": "w",
    "not-applicable": "a",
    "not-exercised": "e",
    "not-recorded": "r",
}
"""One letter for each verdict, in the order of the sorted ids of the rule set."""
NOT_ASKED: Final = "."
# No report or catalog is larger; a few bytes that someone else compressed may stand for more.
_LARGEST: Final = 96 * 1024 * 1024
# Begins every text that is compressed, so that even short ones become small. Stored data can be
# read only with the same words: never change it.
_COMMON_WORDS: Final = (
    b'","state":"reused","seconds":"text":"","state":"failed","state":"skipped","not_cached":"'
    b'","stderr":["","reasons":["","remarks":["","repeat":"","summary":"","failures":[{"name":"'
    b'"owner":"","tags":[""],"left_processes":[],"flaky":[],"repeated":{},"load_lag":0.0'
    b'"changes":[{"kind":"breaking","subject":"tool ","what":"","before":null,"after":null}],'
    b'"changed_since":"last run","transport":"stdio","transport":"http","target":"https://'
    b'"revisions":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],'
    b'"stages":[{"name":"resolve","state":"passed","seconds":0.00},{"name":"start","state":"passed'
    b'","seconds":0.},{"name":"surface","state":"passed","seconds":0.0},{"name":"lint","state":'
    b'"passed","seconds":0.0},{"name":"check","state":"passed","seconds":1},{"name":"test","state"'
    b':"passed","seconds":2},{"name":"measure","state":"passed","seconds":0.},{"name":"stop",'
    b'"state":"passed","seconds":0.0}],"timing":{"start":0.,"ping_median":0.00,"ping_95":0.00,'
    b'"call_median":0.00,"call_95":0.00,"tool":""},"server_name":"'
)


def compress(text: bytes) -> bytes:
    """Return a text in its stored form."""
    packer = zlib.compressobj(9, zdict=_COMMON_WORDS)
    return packer.compress(text) + packer.flush()


def expand(stored: bytes) -> bytes:
    """Return the text of a stored form.

    Raises:
        FleetError: it is damaged, or expands without end.
    """
    reader = zlib.decompressobj(zdict=_COMMON_WORDS)
    try:
        text = reader.decompress(stored, _LARGEST)
    except zlib.error as error:
        raise FleetError(f"a stored part is damaged: {error}") from None
    if reader.unconsumed_tail or not reader.eof:
        raise FleetError("a stored part is damaged: it is cut off or too large")
    return text


def digest_of(*texts: bytes) -> str:
    """Return the name of a part with these texts."""
    found = sha256()
    for text in texts:
        found.update(b"%d:" % len(text))
        found.update(text)
    return found.hexdigest()[:32]


# -- parts


class _Part(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """Something that runs refer to by its digest."""

    digest: str


class RuleSetPart(_Part, frozen=True, kw_only=True, tag="rules"):
    """A set of rules: its sorted ids, one in each line, compressed."""

    version: str
    ids: bytes

    @property
    def sorted_ids(self) -> tuple[str, ...]:
        """The ids, sorted."""
        return tuple(expand(self.ids).decode().split())


class VerdictPart(_Part, frozen=True, kw_only=True, tag="verdicts"):
    """All verdicts on one server.

    Attributes:
        rules: the set of rules, by its digest.
        letters: a verdict for each rule of the set, compressed.
        others: the verdicts on requirements outside of the set, as compressed JSON.
        breaches: what failed or warned.
    """

    rules: str
    letters: bytes
    others: bytes = b""
    breaches: tuple[RequirementBreach, ...] = ()


class FindingPart(_Part, frozen=True, kw_only=True, tag="findings"):
    """The findings about one server, or about all together."""

    findings: tuple[CatalogFinding, ...]


class TestPart(_Part, frozen=True, kw_only=True, tag="tests"):
    """The outcome of each test by its name, as compressed JSON."""

    __test__ = False  # pytest collects classes of this name

    names: bytes


class CatalogPart(_Part, frozen=True, kw_only=True, tag="surface"):
    """A catalog: the digest of each entry and, if it is known, all of it; compressed JSON."""

    entries: bytes
    body: bytes = b""


class WordingPart(_Part, frozen=True, kw_only=True, tag="wording"):
    """The texts of the catalogue that reports quote, by requirement, as compressed JSON."""

    texts: bytes


class ReportPart(_Part, frozen=True, kw_only=True, tag="report"):
    """The report of a check as compressed JSON, without the texts of its `wording`."""

    wording: str
    body: bytes


TravellingPart: TypeAlias = RuleSetPart | VerdictPart | FindingPart | TestPart | CatalogPart
"""What a file of JSON lines has as well."""
Part: TypeAlias = TravellingPart | WordingPart | ReportPart
TRAVELLING: Final[tuple[type[TravellingPart], ...]] = (
    *(RuleSetPart, VerdictPart, FindingPart, TestPart, CatalogPart),
)


class PackedResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A result with the digests of its parts; the other attributes are those of the result.

    Attributes:
        details: everything that is not here, as compressed JSON.
        start_ms: and the like are rounded, for queries; `details` has the exact values.
    """

    name: str
    state: ServerState
    details: bytes
    owner: str = ""
    tags: tuple[str, ...] = ()
    revision: RevisionId | None = None
    score: float | None = None
    exercised: int = 0
    applicable: int = 0
    failures: int = 0
    warnings: int = 0
    accepted: int = 0
    tests_passed: int = 0
    tests_failed: int = 0
    tests_skipped: int = 0
    start_ms: int | None = None
    call_ms_median: int | None = None
    call_ms_95: int | None = None
    seconds: float = 0.0
    tools: int = 0
    resources: int = 0
    templates: int = 0
    prompts: int = 0
    tokens: int = 0
    server_version: str = ""
    cache_key: str = ""
    reused_from: str = ""
    verdicts: str = ""
    findings: str = ""
    tests: str = ""
    catalog: str = msgspec.field(name="surface", default="")
    report: str = ""


class PackedRun(
    msgspec.Struct, frozen=True, kw_only=True, tag="run", tag_field="kind", omit_defaults=True
):
    """A run with the digests of its parts.

    Attributes:
        id: of the run in the history; 0 if it has none yet.
        is_finished: whether it reached all servers.
        regressions: how many; None if it was compared with nothing.
        comparison: with an earlier run, as compressed JSON.
    """

    fleet: str
    file: str
    started: str
    accord: str
    rules: str
    rules_version: str
    results: tuple[PackedResult, ...]
    id: int = 0
    file_digest: str = ""
    seconds: float = 0.0
    jobs: int = 1
    exit: int = 0
    origin: RunOrigin = RunOrigin()
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    findings: str = ""
    is_finished: bool = True
    regressions: int | None = None
    comparison: bytes = b""

    def without_reports(self, id: int) -> "PackedRun":
        """Return the run as a file of JSON lines has it."""
        results = tuple(msgspec.structs.replace(each, report="") for each in self.results)
        return msgspec.structs.replace(self, id=id, results=results)


# -- from a run to its packed form

# Texts of the catalogue, three quarters of a report: equal in all reports of one accord.
CATALOGUE_TEXTS: Final = ("clause", "mend", "anchor")
# Members that parts or columns have, and `details` need not repeat.
_ELSEWHERE: Final = frozenset(PackedResult.__struct_encode_fields__) | {"breaches"}
_PLAIN: Final[Mapping[str, Any]] = msgspec.to_builtins(ServerResult(name="", state="ok"))
CATALOG_COUNTS: Final = ("tools", "resources", "templates", "prompts", "tokens")
# Numbers and texts that a packed result has under the same name.
SAME_MEMBERS: Final = (
    *("name", "state", "owner", "tags", "revision", "score", "exercised", "applicable"),
    *("failures", "warnings", "accepted", "seconds", "server_version", "cache_key"),
    "reused_from",
)


class Packer:
    """Packs a run; afterwards `parts` has everything that the run refers to."""

    def __init__(self, rules: RuleSet) -> None:
        self._ids = sorted(rules.ids)
        self.parts: dict[str, Part] = {}
        ids = compress("\n".join(self._ids).encode())
        self._rules = self._add(
            RuleSetPart(digest=rules.stamp.digest, version=rules.version, ids=ids)
        )

    def _add(self, part: Part) -> str:
        self.parts[part.digest] = part
        return part.digest

    def pack(self, view: FleetView, *, is_finished: bool = True) -> PackedRun:
        """Return a run in its packed form."""
        run, compared = view.run, view.comparison
        return PackedRun(
            fleet=run.fleet,
            file=run.file,
            file_digest=run.file_digest,
            started=run.started,
            seconds=run.seconds,
            accord=run.accord,
            rules=self._rules,
            rules_version=run.rules.version,
            jobs=run.jobs,
            exit=run.exit,
            origin=run.origin,
            notes=run.notes,
            left_out=run.left_out,
            findings=self._findings(run.findings),
            is_finished=is_finished,
            regressions=None if compared is None else len(compared.regressions),
            comparison=b"" if compared is None else compress(msgspec.json.encode(compared)),
            results=tuple(
                self._result(each, view.documents.get(each.name, ServerDocuments()))
                for each in run.results
            ),
        )

    def _result(self, result: ServerResult, documents: ServerDocuments) -> PackedResult:
        timing, tests, catalog = result.timing, result.tests, result.catalog
        return PackedResult(
            **{name: getattr(result, name) for name in SAME_MEMBERS},
            **(
                {} if catalog is None else {name: getattr(catalog, name) for name in CATALOG_COUNTS}
            ),
            tests_passed=tests.passed,
            tests_failed=tests.failed,
            tests_skipped=tests.skipped,
            start_ms=_milliseconds(timing.start),
            call_ms_median=_milliseconds(timing.call_median),
            call_ms_95=_milliseconds(timing.call_95),
            details=compress(msgspec.json.encode(dict(_find_details(result)))),
            verdicts=self._verdicts(result),
            findings=self._findings(result.findings),
            tests=self._tests(tests.names),
            catalog="" if catalog is None else self._catalog(catalog, documents.catalog),
            report=self._report(documents.report) if documents.report else "",
        )

    def _verdicts(self, result: ServerResult) -> str:
        if not result.verdicts and not result.breaches:
            return ""
        given = result.verdicts
        letters = "".join(LETTERS[given[id]] if id in given else NOT_ASKED for id in self._ids)
        inside = frozenset(self._ids)
        others = {id: name for id, name in sorted(given.items()) if id not in inside}
        texts = (
            self._rules.encode(),
            letters.encode(),
            msgspec.json.encode(others) if others else b"",
            msgspec.json.encode(result.breaches),
        )
        return self._add(
            VerdictPart(
                digest=digest_of(*texts),
                rules=self._rules,
                letters=compress(texts[1]),
                others=compress(texts[2]) if others else b"",
                breaches=result.breaches,
            )
        )

    def _findings(self, findings: tuple[CatalogFinding, ...]) -> str:
        if not findings:
            return ""
        digest = digest_of(b"findings", msgspec.json.encode(findings))
        return self._add(FindingPart(digest=digest, findings=findings))

    def _tests(self, names: Mapping[str, str]) -> str:
        if not names:
            return ""
        text = msgspec.json.encode(names)
        return self._add(TestPart(digest=digest_of(b"tests", text), names=compress(text)))

    def _catalog(self, summary: CatalogSummary, catalog: JsonObject | None) -> str:
        body = b"" if catalog is None else compress(msgspec.json.encode(catalog))
        entries = compress(msgspec.json.encode(summary.entries))
        return self._add(CatalogPart(digest=summary.digest, entries=entries, body=body))

    def _report(self, report: bytes) -> str:
        body, texts = _split_report(report)
        wording = digest_of(b"wording", texts)
        self._add(WordingPart(digest=wording, texts=compress(texts)))
        digest = digest_of(b"report", wording.encode(), body)
        return self._add(ReportPart(digest=digest, wording=wording, body=compress(body)))


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _find_details(result: ServerResult) -> Iterator[tuple[str, Any]]:
    """Yield what only `details` keep, without what has its default value."""
    members = msgspec.to_builtins(
        msgspec.structs.replace(
            result, verdicts={}, breaches=(), findings=(), catalog=None, tests=_PLAIN["tests"]
        )
    )
    for name, value in members.items():
        if name not in _ELSEWHERE and value != _PLAIN[name]:
            yield name, value
    if result.tests.no_time:
        yield "tests_no_time", result.tests.no_time
    if result.tests.failures:
        yield "failed_tests", msgspec.to_builtins(result.tests.failures)


def _split_report(report: bytes) -> tuple[bytes, bytes]:
    """Return a report without the texts of the catalogue, and these texts by requirement."""
    try:
        members = msgspec.json.decode(report, type=dict[str, Any])
        texts = {
            each["id"]: [each.pop(name, None) for name in CATALOGUE_TEXTS]
            for each in members["results"]
        }
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        return report, b"{}"  # not as expected: kept as it is
    ordered = dict(sorted(texts.items()))
    return msgspec.json.encode(members), msgspec.json.encode(ordered)


# -- from the packed form back to the run

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
