"""Verdicts on requirements: what scenarios find, joined with what monitors counted."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.rules import RULES, complete
from accord.protocol.verdict import (
    Evidence,
    Mark,
    Tally,
    Verdict,
    VerdictName,
    evidence_of,
    excerpt,
)
from accord.protocol.violation import Party
from accord.types import REVISION_IDS, RevisionId
from accord_tools.reports.report import rank

NO_OCCASION: Final = "the {} gave no occasion for it"
NO_MESSAGE: Final = "no message of the {} put this to the test"
NO_PROBE: Final = "no scenario tries this"
_EVIDENCE_KEPT: Final = 5
_OPEN: tuple[VerdictName, ...] = ("not-exercised", "not-recorded", "not-applicable")
# The parties of the catalogue that a client or a server counts as.
_BOUND: Final[Mapping[Party, frozenset[str]]] = {
    "client": frozenset({"client", "host", "both", "sender", "receiver"}),
    "server": frozenset({"server", "both", "sender", "receiver", "authorization-server"}),
}


def make_verdict(
    row: Requirement,
    revision: RevisionId,
    name: VerdictName,
    message: str,
    evidence: Sequence[Evidence] = (),
) -> Verdict:
    """Return the verdict on a requirement under one revision."""
    return Verdict(
        id=row.id,
        level=row.level_in(revision),
        party=row.party,
        revisions=(revision,),
        verdict=name,
        message=message,
        evidence=list(evidence),
    )


class VerdictCollector:
    """Collects the verdicts of scenarios under one revision.

    Args:
        party: the party under check.
        revision: the revision to judge by.

    Attributes:
        found: the verdicts of scenarios, by requirement.
        tallies: the counts of monitors, one mapping for each connection.
    """

    def __init__(self, party: Party, revision: RevisionId) -> None:
        self.party: Party = party
        self.revision = revision
        self.found: dict[str, Verdict] = {}
        self.tallies: list[Mapping[str, Tally]] = []

    def holds(
        self,
        id: str,
        condition: object,
        why: str,
        *,
        evidence: Sequence[Evidence] | None = None,
        at: str | None = None,
    ) -> bool:
        """Record whether a requirement was kept; one breach outweighs every success.

        Args:
            id: the requirement; ignored if it does not hold in this revision.
            condition: what must be true.
            why: what the party does otherwise, to be read after its name.
            evidence: the messages that show it; the last ones by default.
            at: a JSON pointer to the value in question, in the last of them that the party sent.
        """
        row = catalogue()[id]
        if not row.holds_in(self.revision):
            return bool(condition)
        known = self.found.get(id)
        if condition:
            if known is None or known.verdict in _OPEN:
                self.found[id] = make_verdict(row, self.revision, "pass", "held")
            return True
        severity = row.severity_in(self.revision)
        if severity is None:
            optional = f"held; {why}, which is optional"
            self.found.setdefault(id, make_verdict(row, self.revision, "pass", optional))
        elif known is None or known.verdict not in ("fail", "warn"):
            shown = self.last_evidence() if evidence is None else evidence
            if at is not None:
                shown = self._mark_value(shown, at)
            first = Evidence(why, self.party)
            self.found[id] = make_verdict(row, self.revision, severity, why, [first, *shown])
        return False

    def last_evidence(self) -> Sequence[Evidence]:
        """Return the messages that show a breach, if a scenario names none."""
        return ()

    def whole_message(self, evidence: Evidence) -> str:
        """Return the message of which an evidence may be an excerpt."""
        return evidence.message or ""

    def _mark_value(self, evidence: Sequence[Evidence], pointer: str) -> Sequence[Evidence]:
        """Return the evidence with a value marked, if the last message of the party has it."""
        own = [place for place, each in enumerate(evidence) if each.party == self.party]
        if not own:
            return evidence
        marked = excerpt(self.whole_message(evidence[own[-1]]), pointer)
        if marked.mark is None:
            return evidence
        changed = msgspec.structs.replace(
            evidence[own[-1]], message=marked.text, pointer=pointer, mark=marked.mark
        )
        return [*evidence[: own[-1]], changed, *evidence[own[-1] + 1 :]]

    def passes(self, *ids: str) -> None:
        """Record that requirements were kept."""
        for id in ids:
            self.holds(id, condition=True, why="")

    def fail(self, id: str, why: str, *, at: str | None = None) -> None:
        """Record that a requirement was broken, at a value of the last message if it is known."""
        self.holds(id, condition=False, why=why, at=at)

    def skip(self, ids: str | Iterable[str], why: str) -> None:
        """Record why requirements could not be put to the test."""
        self._set_default(ids, "not-exercised", why)

    def not_applicable(self, ids: str | Iterable[str], why: str) -> None:
        """Record why requirements do not concern this party."""
        self._set_default(ids, "not-applicable", why)

    def adopt(self, found: Iterable[Verdict]) -> None:
        """Copy verdicts of another revision to the requirements that hold in this one too."""
        for verdict in found:
            row = catalogue()[verdict.id]
            known = self.found.get(row.id)
            if row.holds_in(self.revision) and (known is None or rank(verdict) < rank(known)):
                self.found[row.id] = make_verdict(
                    row, self.revision, verdict.verdict, verdict.message, verdict.evidence
                )

    def verdict(self, id: str) -> Verdict | None:
        """Return the worst verdict of scenarios and monitors; None if there is neither."""
        row = catalogue()[id]
        tally = sum_tallies(tallies.get(id) for tallies in self.tallies)
        found = (self.found.get(id), self._tally_verdict(row, tally))
        return worst([each for each in found if each is not None])

    def _set_default(self, ids: str | Iterable[str], name: VerdictName, why: str) -> None:
        for id in [ids] if isinstance(ids, str) else ids:
            row = catalogue()[id]
            if row.holds_in(self.revision):
                self.found.setdefault(id, make_verdict(row, self.revision, name, why))

    def _tally_verdict(self, row: Requirement, tally: Tally) -> Verdict | None:
        if tally.worst is not None:
            # One mistake shows on many connections, so only different mistakes are counted.
            ways: dict[str, Evidence] = {}
            for kept in tally.kept:
                ways.setdefault(kept.why, evidence_of(kept))
            first, *rest = ways
            more = f" (and {len(rest)} more like it)" if rest else ""
            evidence = list(ways.values())[:_EVIDENCE_KEPT]
            return make_verdict(row, self.revision, tally.worst, first + more, evidence)
        if tally.exercised:
            return make_verdict(row, self.revision, "pass", tally.held_text)
        return None


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the verdict that counts where several differ; None without verdicts."""
    return min(verdicts, key=rank, default=None)


def is_chosen(id: str, only: Collection[str]) -> bool:
    """Return whether `--only` selects a requirement, by its id or the beginning of it.

    >>> is_chosen("tools.list.array", ["tools", "ping.response.empty"])
    True
    """
    return not only or any(id == each or id.startswith(f"{each.rstrip('.*')}.") for each in only)


def demand_requirements(only: Collection[str]) -> None:
    """Check that every `--only` names at least one requirement."""
    from accord.cli.options import UsageError, did_you_mean

    known = catalogue()
    for each in only:
        if not any(is_chosen(id, [each]) for id in known):
            areas = {row.area for row in known.values()}
            hint = did_you_mean(each, [*known, *areas]) or "; accord requirements lists them"
            raise UsageError(f"there is no requirement {each!r}{hint}")


def chosen_requirements(
    party: Party, revision: RevisionId, only: Collection[str]
) -> list[Requirement]:
    """Return the requirements of a revision that bind a party and that `--only` selects."""
    return [
        row
        for row in catalogue().values()
        if row.holds_in(revision) and row.party in _BOUND[party] and is_chosen(row.id, only)
    ]


def edit_texts(verdict: Verdict, edit: Callable[[str], str]) -> Verdict:
    """Return a verdict with every text of a peer edited, such as to hide secrets."""
    return msgspec.structs.replace(
        verdict,
        message=edit(verdict.message),
        evidence=[_edit_evidence(each, edit) for each in verdict.evidence],
    )


def _edit_evidence(evidence: Evidence, edit: Callable[[str], str]) -> Evidence:
    message, mark = edit_marked(evidence.message, evidence.mark, edit)
    return msgspec.structs.replace(
        evidence,
        why=edit(evidence.why),
        message=message,
        pointer=evidence.pointer and edit(evidence.pointer),
        mark=mark,
    )


def edit_marked(
    text: str | None, mark: Mark | None, edit: Callable[[str], str]
) -> tuple[str | None, Mark | None]:
    """Edit a text of a peer, and find the value again that was marked in it."""
    whole = text and edit(text)
    if not text or not whole or mark is None:
        return whole, None
    before, value, after = (
        edit(text[slice(*each)]) for each in ((0, mark[0]), mark, (mark[1], None))
    )
    # A secret that only the whole text shows must stay hidden: it is more important than the mark.
    if f"{before}{value}{after}" != whole:
        return whole, None
    return whole, (len(before), len(before) + len(value))


def sum_tallies(tallies: Iterable[Tally | None]) -> Tally:
    """Add up the counts of several monitors."""
    total = Tally(kept=[])
    for tally in tallies:
        if tally is not None:
            total.exercised += tally.exercised
            total.breaches += tally.breaches
            if tally.worst is not None and total.worst != "fail":
                total.worst = tally.worst
            total.kept += tally.kept
            total.hint = total.hint or tally.hint
    return total


def explain_untried(row: Requirement, probed: Collection[str], party: str) -> str:
    """Return why a requirement was not put to the test.

    Args:
        row: the requirement.
        probed: ids of the requirements that this kind of check tries.
        party: the party under check.
    """
    if row.check == "human":
        return "it takes a person to see this"
    if row.id in probed:
        return NO_OCCASION.format(party)
    has_rule = row.check == "wire" and row.id in _ids_with_rules()
    if has_rule:
        return NO_MESSAGE.format(party)
    return NO_PROBE


@cache
def _ids_with_rules() -> frozenset[str]:
    """Return the ids of the requirements that a monitor judges."""
    complete(REVISION_IDS[-1])  # registers the rules of all areas
    return frozenset(rule.requirement for rule in RULES)
