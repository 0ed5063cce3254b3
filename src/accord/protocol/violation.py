"""A violation of a requirement, the parties, and the reaction of an endpoint."""

from typing import Final, Literal, TypeAlias

import msgspec

Party: TypeAlias = Literal["client", "server"]
CLIENT: Final[Party] = "client"
SERVER: Final[Party] = "server"
OTHER: Final[dict[Party, Party]] = {CLIENT: SERVER, SERVER: CLIENT}

Severity: TypeAlias = Literal["fail", "warn"]
FAIL: Final[Severity] = "fail"
WARN: Final[Severity] = "warn"

Reaction: TypeAlias = int | None
"""What an endpoint does on a violation: accept the message, ignore it, or answer with a code."""
ACCEPT: Final = None
IGNORE: Final = 0


class Violation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One violation: of which requirement, by which party, and why.

    Without a `severity` the level of the requirement decides. `number` counts the observed
    records from 1, `evidence` is the beginning of the message; only a monitor sets them.
    """

    requirement: str
    party: Party
    why: str
    severity: Severity | None = None
    reaction: Reaction = ACCEPT
    number: int | None = None
    evidence: str | None = None

    def __str__(self) -> str:
        return f"{self.requirement}: {self.party} {self.why}"
