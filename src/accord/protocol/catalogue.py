"""Every requirement of every revision as data: its text, the party it binds, its revisions.

The rows are in `requirements/<area>.toml` and are read on first use. `level` is the keyword of the
document a row was taken from, `official_level` that of the published page or schema if the two
differ. The checks themselves are in `accord.protocol.rules`.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypeVar, get_args

import msgspec

from accord.protocol.violation import FAIL, WARN, Severity
from accord.types._base import REVISION_IDS, JsonObject, RevisionId, since

RULE_SET: Final = "2026-11"
"""The date of the requirements and of the rules that judge them; reports and lock files name it.

Verdicts of one rule set can be compared, whatever version of accord gave them.
"""
# Of the table of rules; tests/protocol/test_rule_set.py says what to do when it changes.
RULE_SET_DIGEST: Final = "430f60095a73eaf5"

Level: TypeAlias = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "FACT"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)

BoundParty: TypeAlias = Literal[
    "client", "server", "both", "sender", "receiver", "host", "authorization-server", "intermediary"
]
PARTIES: Final[tuple[BoundParty, ...]] = get_args(BoundParty)

Check: TypeAlias = Literal[
    "wire", "server-probe", "client-probe", "process", "http-probe", "auth-probe", "human"
]
CHECKS: Final[tuple[Check, ...]] = get_args(Check)

Recorded: TypeAlias = Literal["messages", "http"]
"""What a recording must have to decide a row: the messages alone, or what HTTP said as well."""

# The order of the specification, from the message up to the features; reports keep it.
AREAS: Final = (
    *("jsonrpc", "stdio", "sse", "http", "session", "auth", "lifecycle"),
    *("resources", "prompts", "tools", "roots", "sampling", "elicitation"),
    *("ping", "cancellation", "progress", "logging", "completion", "pagination", "errors", "meta"),
    *("practice", "base", "result", "schema", "otel", "capability", "stateless", "icons"),
    *("versioning", "discover", "extensions", "transport", "mrtr", "subscriptions", "timeouts"),
    *("caching", "deprecated", "tasks", "tasks-ext"),
)

# Checks of the traffic alone, not of the behaviour of a party.
_TRAFFIC_CHECKS: Final[tuple[Check, ...]] = ("wire", "http-probe")

Value = TypeVar("Value")


class Requirement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One clause of the specification, or one observed practice.

    Attributes:
        mend: one sentence for the author of the party at fault: what to change.
        revisions: the revisions whose document states it; "practice" if only servers show it.
        also: revisions in which it holds although their document does not state it.
        level: the keyword; with `levels`, the one of the newest listed revision.
        official_level: the keyword of the official text if it differs, for all or by revision.
        party: the party it binds; a `sender` sends the message in question, a `receiver` gets it.
        check: what decides it; `wire` is recorded traffic.
        recording: what a recording must have to decide it; None if no recording can.
        removed_in: the first revision in which it no longer holds.
        changed_in: the first revision in which it has another form, that of `replaced_by`.
        change: how the later revision changed it.
    """

    id: str
    area: str
    text: str
    level: Level
    party: BoundParty
    check: Check
    revisions: tuple[RevisionId | Literal["practice"], ...]
    source: tuple[str, ...]
    mend: str
    recording: Recorded | None = None
    also: tuple[RevisionId, ...] = ()
    levels: dict[RevisionId, Level] = {}
    official_level: Level | dict[RevisionId, Level] | None = None
    removed_in: RevisionId | None = None
    changed_in: RevisionId | None = None
    replaced_by: tuple[str, ...] = ()
    change: str | None = None
    note: str | None = None

    @property
    def is_practice(self) -> bool:
        """Whether it was only observed in servers, and no document states it."""
        return "practice" in self.revisions

    def holds_in(self, revision: RevisionId) -> bool:
        """Tell whether this row is judged in a revision.

        A row stays in force after the newest revision that states it, until one removes or replaces
        it.
        """
        if revision in self.revisions or revision in self.also:
            return True
        stated = (*self.revisions, *self.also)
        is_later = all(_position(revision) > _position(each) for each in stated)
        return is_later and not self._has_ended(revision)

    def level_in(self, revision: RevisionId) -> Level:
        """Return the level to judge by: the official keyword, else the stated one."""
        official = self._official_in(revision)
        return self._stated_in(revision) if official in (None, "FACT") else official

    def severity_in(self, revision: RevisionId) -> Severity | None:
        """Return the severity of a breach; None if the official text makes the row optional.

        A MUST fails and a SHOULD warns. Rows without such a keyword fix the form of messages, as
        the schema does (a name, a type), or describe the behaviour of a party (a method, an error
        code). The first are decided by the traffic alone, and fail; the others warn.
        """
        level = self.level_in(revision)
        if level == "MAY" and self._stated_in(revision) != "MAY":
            return None
        if self.is_practice:
            return WARN
        if level in ("MUST", "MUST NOT"):
            return FAIL
        if level in ("SHOULD", "SHOULD NOT"):
            return WARN
        return FAIL if self.check in _TRAFFIC_CHECKS else WARN

    def _has_ended(self, revision: RevisionId) -> bool:
        if self.removed_in is not None and revision in since(self.removed_in):
            return True
        replaced = self.changed_in is not None and bool(self.replaced_by)
        return replaced and revision in since(self.changed_in or revision)

    def _stated_in(self, revision: RevisionId) -> Level:
        return _latest(self.levels, revision) or self.level

    def _official_in(self, revision: RevisionId) -> Level | None:
        if isinstance(self.official_level, dict):
            return _latest(self.official_level, revision)
        return self.official_level


def _position(revision: RevisionId | Literal["practice"]) -> int:
    return -1 if revision == "practice" else REVISION_IDS.index(revision)


def _latest(by_revision: Mapping[RevisionId, Value], revision: RevisionId) -> Value | None:
    """Return the value of the newest entry that is not after this revision."""
    earlier = [each for each in REVISION_IDS if each in by_revision and revision in since(each)]
    return by_revision[earlier[-1]] if earlier else None


def _read(area: str) -> Iterator[Requirement]:
    text = files("accord.protocol").joinpath("requirements", f"{area}.toml").read_text("utf-8")
    rows: dict[str, JsonObject] = tomllib.loads(text)
    for id_, row in rows.items():
        yield msgspec.convert({"id": id_, "area": area, **row}, Requirement)


@cache
def catalogue() -> Mapping[str, Requirement]:
    """Return all requirements by id, area by area in the order of the specification."""
    return MappingProxyType({row.id: row for area in AREAS for row in _read(area)})


def requirements(
    *,
    revision: RevisionId | None = None,
    level: Level | None = None,
    area: str | None = None,
    party: BoundParty | None = None,
    check: Check | None = None,
) -> Iterator[Requirement]:
    """Yield the requirements that meet every given condition, in the order of the catalogue.

    With a revision, `level` is the level in that revision.
    """
    for row in catalogue().values():
        if revision is not None and not row.holds_in(revision):
            continue
        judged = row.level if revision is None else row.level_in(revision)
        wanted = ((level, judged), (area, row.area), (party, row.party), (check, row.check))
        if all(want is None or want == have for want, have in wanted):
            yield row
