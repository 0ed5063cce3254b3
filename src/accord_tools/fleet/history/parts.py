"""Runs in the form in which they are kept: small, with every repeated part once.

Most servers are the same from run to run. What repeats is a part of its own, named by its digest:
the verdicts on a server, its findings, tests and catalog, and the report. A run then holds little
more than numbers and the digests of its parts.
"""

import zlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from accord.protocol.verdict import VerdictName
from accord.types import RevisionId
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.results import CatalogFinding, RequirementBreach, RunOrigin, ServerState

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
