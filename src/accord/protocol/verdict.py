"""What is said of a requirement in the end, and what it rests on."""

from typing import Literal, TypeAlias

import msgspec

from accord.protocol.catalogue import Level
from accord.protocol.violation import Party, Severity, Violation

VerdictName: TypeAlias = Literal["pass", "fail", "warn", "not-applicable", "not-exercised"]


class Tally(msgspec.Struct):
    """How one requirement fared: how often it was tested and broken, and the first breaches.

    `hint` is the first thing seen that the text recommends and does not ask for.
    """

    exercised: int = 0
    breaches: int = 0
    worst: Severity | None = None
    kept: list[Violation] = []
    hint: str | None = None

    @property
    def held_text(self) -> str:
        """What is said of a requirement that was put to the test and not broken."""
        told = f"held {self.exercised} times" if self.exercised > 1 else "held"
        return told if self.hint is None else f"{told}; {self.hint}, which is optional"


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a breach was seen."""

    why: str
    party: Party
    number: int | None = None
    message: str | None = None


class Verdict(msgspec.Struct, frozen=True):
    """What is said of one requirement in the end."""

    id: str
    level: Level
    party: str
    revisions: tuple[str, ...]
    verdict: VerdictName
    message: str
    evidence: list[Evidence]
