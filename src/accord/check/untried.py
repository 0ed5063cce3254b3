"""Why a requirement was not put to the test, where nothing that was tried says it."""

from collections.abc import Collection
from functools import cache
from typing import Final

from accord.protocol.catalogue import Requirement
from accord.protocol.rules import complete
from accord.protocol.rules._rule import RULES
from accord.types._base import REVISION_IDS

NO_OCCASION: Final = "the {} gave no occasion for it"
NO_PROBE: Final = "accord has no probe for this yet"
# A check never asks for these, so that no message of the other side can show them.
_UNASKED: Final = frozenset({"tasks"})


def explain_untried(row: Requirement, probed: Collection[str], party: str) -> str:
    """Say why a requirement has no verdict.

    Args:
        row: the requirement.
        probed: ids of the requirements that this kind of check tries.
        party: who is under check.
    """
    if row.check == "human":
        return "it takes a person to see this"
    is_judged = row.check == "wire" and row.id in _ruled() and row.area not in _UNASKED
    if is_judged or row.id in probed:
        return NO_OCCASION.format(party)
    return NO_PROBE


@cache
def _ruled() -> frozenset[str]:
    """Return the ids of the requirements that a monitor judges."""
    complete(REVISION_IDS[-1])  # registers the rules of all areas
    return frozenset(rule.requirement for rule in RULES)
