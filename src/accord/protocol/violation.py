"""One breach of one requirement, and who the parties are."""

from typing import Literal, TypeAlias

import msgspec

Party: TypeAlias = Literal["client", "server"]
CLIENT: Party = "client"
SERVER: Party = "server"
OTHER: dict[Party, Party] = {CLIENT: SERVER, SERVER: CLIENT}

Severity: TypeAlias = Literal["fail", "warn"]
FAIL: Severity = "fail"
WARN: Severity = "warn"


class Violation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One breach: which requirement, by whom, and why.

    `severity` is None where the level of the requirement decides. `number` counts the observed records from 1,
    `evidence` is the beginning of the message; only a monitor fills them in.
    """

    requirement: str
    party: Party
    why: str
    severity: Severity | None = None
    number: int | None = None
    evidence: str | None = None

    def __str__(self) -> str:
        return f"{self.requirement}: {self.party} {self.why}"
