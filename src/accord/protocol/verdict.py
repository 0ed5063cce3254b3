"""The verdict on a requirement, its evidence, and the count it is made from."""

from typing import Literal, TypeAlias

import msgspec

from accord.protocol.catalogue import Level
from accord.protocol.violation import Party, Severity, Violation

VerdictName: TypeAlias = Literal["pass", "fail", "warn", "not-applicable", "not-exercised"]


class Tally(msgspec.Struct):
    """How often one requirement was tested and broken, with the first violations.

    `hint` is the first deviation from an optional requirement.
    """

    exercised: int = 0
    breaches: int = 0
    worst: Severity | None = None
    kept: list[Violation] = []
    hint: str | None = None

    @property
    def held_text(self) -> str:
        """The message of a verdict on a requirement that was tested and not broken."""
        text = f"held {self.exercised} times" if self.exercised > 1 else "held"
        return text if self.hint is None else f"{text}; {self.hint}, which is optional"


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that shows a violation, and why."""

    why: str
    party: Party
    number: int | None = None
    message: str | None = None


class Verdict(msgspec.Struct, frozen=True):
    """The verdict on one requirement."""

    id: str
    level: Level
    party: str
    revisions: tuple[str, ...]
    verdict: VerdictName
    message: str
    evidence: list[Evidence]
