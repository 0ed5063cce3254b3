"""One breach of one requirement, the two parties, and the reaction of an endpoint to a breach."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from accord.errors import RequestError

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
    """One breach: the requirement, the party that broke it, and why.

    Without a `severity` the level of the requirement decides. `place` is a JSON pointer to the
    value in question. `number` counts the observed records from 1, `evidence` is an excerpt of the
    message, and `mark` where the value is in it. `also` are less specific requirements that the
    same value breaks. Only a monitor fills these in.
    """

    requirement: str
    party: Party
    why: str
    severity: Severity | None = None
    reaction: Reaction = ACCEPT
    number: int | None = None
    evidence: str | None = None
    place: str | None = None
    mark: tuple[int, int] | None = None
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.requirement}: {self.party} {self.why}"


def refuse_for_reaction(violations: Sequence[Violation]) -> bool:
    """Refuse what the rules say to ignore, or to answer with an error."""
    return any(violation.reaction is not None for violation in violations)


def refuse_for_code(violations: Sequence[Violation]) -> bool:
    """Refuse what the rules say to answer with an error."""
    return any(violation.reaction for violation in violations)


def find_refusal(name: str, violations: Sequence[Violation]) -> RequestError | None:
    """Return the error that the first violation with a code asks for."""
    for violation in violations:
        if violation.reaction:
            why = f"{name}: the {violation.party} {violation.why}"
            return RequestError(why, code=violation.reaction)
    return None
