"""The requirements as rules, one module per area of the specification.

Importing this package registers the state rules, which endpoints obey. `complete()` registers the
rules on bodies too; monitors call it.
"""

from functools import cache

import accord.protocol.rules.state  # noqa: F401  # registers the state rules
from accord.protocol.rules._rule import RULES, Breach, Index, Rule, enforced_rules
from accord.types._base import RevisionId

__all__ = ["RULES", "Breach", "Index", "Rule", "complete", "enforced_rules"]


@cache
def complete(revision: RevisionId) -> Index:
    """Return the rules by which monitors judge: all that hold in a revision by the catalogue."""
    import accord.protocol.rules.body  # noqa: F401  # registers the rules on bodies
    from accord.protocol.catalogue import catalogue

    rows = catalogue()
    return Index(rule for rule in RULES if rows[rule.requirement].holds_in(revision))
