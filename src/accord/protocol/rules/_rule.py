"""What a rule is: one requirement bound to the function that judges it, and the index that finds the few that matter.

A judge gets the step and the conversation before the step changes it, and returns

- None where the step does not put the clause to the test,
- True where the clause holds,
- a sentence that says what is wrong, with the sender as its subject ("sends ..."),
- a `Breach` where the severity or the reaction is not the usual one,
- or a list of sentences and breaches.

State rules look at order, ids and capabilities: endpoints and monitors obey them. Deep rules read whole bodies as plain
JSON: monitors run them, and endpoints asked to be strict.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT, Kind
from accord.protocol.violation import ACCEPT, CLIENT, SERVER, Party, Reaction, Severity, Violation
from accord.types._base import ALWAYS, Lifetime, RevisionId

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

EITHER: Final[tuple[Party, ...]] = (CLIENT, SERVER)
KINDS: Final[tuple[Kind, ...]] = (REQUEST, NOTIFICATION, RESULT, FAULT)
MESSAGES: Final[tuple[Kind, ...]] = KINDS
REPLIES: Final[tuple[Kind, ...]] = (RESULT, FAULT)


class Breach(msgspec.Struct, frozen=True):
    """A breach whose severity, reaction or culprit is not what the rule says by default."""

    why: str
    severity: Severity | None = None
    reaction: Reaction = ACCEPT
    requirement: str | None = None


Outcome: TypeAlias = "None | bool | str | Breach | Sequence[str | Breach]"
Judge: TypeAlias = "Callable[[Step, Conversation], Outcome]"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement bound to its judge, and to the messages on which it is judged."""

    requirement: str
    judge: Any
    by: tuple[Party, ...]
    kinds: tuple[Kind, ...]
    on: frozenset[str] | None
    lifetime: Lifetime
    reaction: Reaction
    deep: bool

    def concerns(self, sender: Party, kind: Kind, name: str) -> bool:
        """Tell whether a message of this kind and method is judged by this rule."""
        return sender in self.by and kind in self.kinds and (self.on is None or name in self.on)


RULES: Final[list[Rule]] = []


def check(
    requirement: str,
    *,
    by: Party | tuple[Party, ...] = EITHER,
    kind: Kind | tuple[Kind, ...],
    on: str | Iterable[str] | None = None,
    lifetime: Lifetime = ALWAYS,
    reaction: Reaction = ACCEPT,
    deep: bool = True,
) -> Callable[[Judge], Judge]:
    """Bind a judge to a requirement of the catalogue.

    Args:
        requirement: its id; the catalogue has its text, level and revisions.
        by: whose messages are judged.
        kind: which kinds of messages.
        on: the methods; for replies, the methods they answer. None: all.
        lifetime: for state rules, in which revisions endpoints enforce it; of deep rules the catalogue knows.
        reaction: what an endpoint does when its peer breaks the rule.
        deep: whether the judge reads whole bodies; such rules run in monitors and strict endpoints only.
    """

    def bind(judge: Judge) -> Judge:
        RULES.append(
            Rule(
                requirement=requirement,
                judge=judge,
                by=(by,) if isinstance(by, str) else by,
                kinds=(kind,) if isinstance(kind, str) else kind,
                on=None if on is None else frozenset((on,) if isinstance(on, str) else on),
                lifetime=lifetime,
                reaction=reaction,
                deep=deep,
            )
        )
        return judge

    return bind


def breaches(rule: Rule, outcome: Outcome, sender: Party) -> list[Violation]:
    """Turn what a judge returned into violations."""
    if outcome is None or outcome is True:
        return []
    found = [outcome] if isinstance(outcome, str | Breach) else outcome
    violations = []
    for item in found:  # type: ignore[union-attr]  # a judge never returns False
        breach = Breach(item, reaction=rule.reaction) if isinstance(item, str) else item
        violations.append(
            Violation(
                breach.requirement or rule.requirement,
                sender,
                breach.why,
                severity=breach.severity,
                reaction=breach.reaction,
            )
        )
    return violations


class Index:
    """The rules in force under one revision, found by sender, kind and method."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._found: dict[Party, dict[Kind, _Lookup]] = {
            party: {kind: _Lookup(self.rules, party, kind) for kind in KINDS} for party in EITHER
        }

    def __getitem__(self, sender: Party) -> "dict[Kind, _Lookup]":
        return self._found[sender]


class _Lookup(dict[str, tuple[Rule, ...]]):
    """Rules by method; names that no rule mentions share the rules for all methods, so a peer cannot make it grow."""

    def __init__(self, rules: tuple[Rule, ...], party: Party, kind: Kind) -> None:
        super().__init__()
        concerned = [rule for rule in rules if party in rule.by and kind in rule.kinds]
        for name in {name for rule in concerned for name in rule.on or ()}:
            self[name] = tuple(rule for rule in concerned if rule.concerns(party, kind, name))
        self._others = tuple(rule for rule in concerned if rule.on is None)

    def __missing__(self, name: str) -> tuple[Rule, ...]:
        return self._others


def enforced(revision: RevisionId) -> Index:
    """Return the state rules of a revision: what every endpoint obeys."""
    found = _ENFORCED.get(revision)
    if found is None:
        import accord.protocol.rules  # noqa: F401  # the state rules register themselves

        found = Index(rule for rule in RULES if not rule.deep and revision in rule.lifetime)
        _ENFORCED[revision] = found
    return found


_ENFORCED: Final[dict[RevisionId, Index]] = {}
