"""What scenarios find about requirements, and how it is joined with what a monitor saw."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from accord.check.report import VERDICTS
from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.monitor import Evidence, Tally, Verdict, VerdictName
from accord.protocol.violation import Party
from accord.types import RevisionId

_SHOWN: Final = 5
_OPEN: tuple[VerdictName, ...] = ("not-exercised", "not-applicable")


class Outcome(msgspec.Struct):
    """What was found about one requirement."""

    verdict: VerdictName
    message: str
    evidence: list[Evidence] = []


class VerdictCollector:
    """Takes the verdicts of scenarios under one revision.

    Args:
        party: who is under check.
        revision: under which revision.

    Attributes:
        found: what was found, by requirement.
        tallies: what monitors counted, one for each line.
    """

    def __init__(self, party: Party, revision: RevisionId) -> None:
        self.party: Party = party
        self.revision = revision
        self.found: dict[str, Outcome] = {}
        self.tallies: list[Mapping[str, Tally]] = []

    def hold(
        self, id: str, condition: object, why: str, *, evidence: Iterable[Evidence] = ()
    ) -> bool:
        """Note whether a requirement was kept; a breach outweighs all that was kept.

        Args:
            id: the requirement; one that does not hold in this revision is not judged.
            condition: what must be true.
            why: what the party does if it is not, to be read after its name.
            evidence: what shows it.
        """
        row = catalogue()[id]
        if not row.holds_in(self.revision):
            return bool(condition)
        known = self.found.get(id)
        if condition:
            if known is None or known.verdict in _OPEN:
                self.found[id] = Outcome("pass", "held")
            return True
        verdict = row.severity_in(self.revision)
        if verdict is None:
            self.found.setdefault(id, Outcome("pass", f"held; {why}, which is optional"))
        elif known is None or known.verdict not in ("fail", "warn"):
            proof = Evidence(why, self.party, None, None)
            self.found[id] = Outcome(verdict, why, [proof, *evidence])
        return False

    def skip(self, id: str, why: str) -> None:
        """Note that a requirement could not be put to the test, and why."""
        if catalogue()[id].holds_in(self.revision):
            self.found.setdefault(id, Outcome("not-exercised", why))

    def exclude(self, id: str, why: str) -> None:
        """Note that a requirement does not concern this party, and why."""
        if catalogue()[id].holds_in(self.revision):
            self.found.setdefault(id, Outcome("not-applicable", why))

    def adopt(self, found: Mapping[str, Outcome]) -> None:
        """Take over what was found under another revision and holds under this one too."""
        for id, outcome in found.items():
            known = self.found.get(id)
            is_worse = known is None or VERDICTS.index(outcome.verdict) < VERDICTS.index(
                known.verdict
            )
            if is_worse and catalogue()[id].holds_in(self.revision):
                self.found[id] = outcome

    def outcome(self, id: str) -> Outcome | None:
        """Return the worst that scenarios or monitors found; None where nothing was."""
        tally = sum_tallies(tallies.get(id) for tallies in self.tallies)
        known = [each for each in (self.found.get(id), _of_tally(tally)) if each is not None]
        return min(known, key=lambda each: VERDICTS.index(each.verdict)) if known else None


def is_chosen(id: str, only: Collection[str]) -> bool:
    """Tell whether a requirement is one of those chosen by ids, or by what ids begin with.

    >>> is_chosen("tools.list.array", ["tools", "ping.response.empty"])
    True
    """
    return not only or any(id == each or id.startswith(f"{each.rstrip('.*')}.") for each in only)


def judged(row: Requirement, revision: RevisionId, outcome: Outcome) -> Verdict:
    """Return an outcome as the verdict on a requirement."""
    return Verdict(
        id=row.id,
        level=row.level_in(revision),
        party=row.party,
        revisions=(revision,),
        verdict=outcome.verdict,
        message=outcome.message,
        evidence=outcome.evidence,
    )


def hide_secrets(verdict: Verdict, secrets: Sequence[str]) -> Verdict:
    """Return a verdict without the texts that let the user in, which a server may repeat."""

    def hide(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "(secret)")
        return text

    evidence = [
        msgspec.structs.replace(
            each, why=hide(each.why), message=each.message and hide(each.message)
        )
        for each in verdict.evidence
    ]
    return msgspec.structs.replace(verdict, message=hide(verdict.message), evidence=evidence)


def sum_tallies(tallies: Iterable[Tally | None]) -> Tally:
    """Return one count of what several monitors counted."""
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


def _of_tally(tally: Tally) -> Outcome | None:
    if tally.worst is not None:
        # The same is said on many lines: what counts is how many different things are wrong.
        ways: dict[str, Evidence] = {}
        for kept in tally.kept:
            shown = Evidence(kept.why, kept.party, kept.number, kept.evidence)
            ways.setdefault(kept.why, shown)
        first, *others = ways
        more = f" (and {len(others)} more like it)" if others else ""
        return Outcome(tally.worst, first + more, list(ways.values())[:_SHOWN])
    if tally.exercised:
        return Outcome("pass", tally.held_text)
    return None
