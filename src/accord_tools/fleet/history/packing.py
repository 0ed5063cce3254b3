"""From a run to its packed form, see `parts`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from accord.types import JsonObject
from accord_tools.fleet.history.parts import (
    LETTERS,
    NOT_ASKED,
    CatalogPart,
    FindingPart,
    PackedResult,
    PackedRun,
    Part,
    ReportPart,
    RuleSetPart,
    TestPart,
    VerdictPart,
    WordingPart,
    compress,
    digest_of,
)
from accord_tools.fleet.results import (
    CatalogFinding,
    CatalogSummary,
    FleetView,
    ServerDocuments,
    ServerResult,
)
from accord_tools.fleet.rule_set import RuleSet

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
