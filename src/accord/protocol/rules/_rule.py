"""A rule: one requirement, the function that judges it, and the index that finds it.

A judge gets the step and the conversation before the step changes it, and returns

- None where the step does not put the clause to the test,
- True where the clause holds,
- a sentence that says what is wrong, with the sender as its subject ("sends ..."),
- a `Breach` where the severity or the reaction is not the usual one,
- or a list of sentences and breaches.

State rules look at order, ids and capabilities: endpoints and monitors obey them. Deep rules read
whole bodies as plain JSON, and monitors alone run them. They may also yield findings, one about
each object that they test.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT, Kind
from accord.protocol.violation import (
    ACCEPT,
    CLIENT,
    OTHER,
    SERVER,
    Party,
    Reaction,
    Severity,
    Violation,
)
from accord.types._base import ALWAYS, Lifetime, RevisionId

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation
    from accord.protocol.exchange import Step
    from accord.protocol.revisions import Revision


# -- selections of messages by sender, kind and method: what a rule is about
#
# `results("tools/list", by=SERVER)` selects the answers of servers to `tools/list`.

EITHER: Final[tuple[Party, ...]] = (CLIENT, SERVER)
KINDS: Final[tuple[Kind, ...]] = (REQUEST, NOTIFICATION, RESULT, FAULT)
REPLIES: Final[tuple[Kind, ...]] = (RESULT, FAULT)


class Messages(msgspec.Struct, frozen=True):
    """The messages that a rule is about; `on` is None for all methods."""

    by: tuple[Party, ...]
    kinds: tuple[Kind, ...]
    on: frozenset[str] | None


def messages(
    kind: Kind | tuple[Kind, ...] = KINDS,
    on: str | Iterable[str] | None = None,
    *,
    by: Party | tuple[Party, ...] = EITHER,
) -> Messages:
    """Return the messages of these kinds; replies have the methods of what they answer."""
    return Messages(
        by=(by,) if isinstance(by, str) else by,
        kinds=(kind,) if isinstance(kind, str) else kind,
        on=None if on is None else frozenset((on,) if isinstance(on, str) else on),
    )


requests = partial(messages, REQUEST)
notifications = partial(messages, NOTIFICATION)
results = partial(messages, RESULT)

# -- rules

# A list of a thousand tools with the same mistake is reported by its first few.
MOST_FINDINGS: Final = 5
# What the parties say of themselves in these has to be learned, whether a rule objects or not.
_LEARNED_FROM: Final = frozenset({"initialize", "server/discover"})


class Breach(msgspec.Struct, frozen=True):
    """A breach with its place, or one that is not as severe or not answered as usual.

    `at` names the value in question, see `places`; without it, the place is that of the rule.
    """

    why: str
    severity: Severity | None = None
    reaction: Reaction | UnsetType = UNSET
    at: tuple[str, ...] = ()


Finding: TypeAlias = bool | str | Breach | None
Findings: TypeAlias = Iterator[Finding]
Outcome: TypeAlias = Finding | Sequence[str | Breach]
Judge: TypeAlias = "Callable[[Step, Conversation], Outcome]"
AnyOutcome: TypeAlias = "Judge | Callable[[Step, Conversation], Findings]"
AnyJudge = TypeVar("AnyJudge", bound="AnyOutcome")
Only: TypeAlias = Literal["opening", "reuse"]
Declared: TypeAlias = "dict[Party, frozenset[str] | None]"
HoldsFor: TypeAlias = "Callable[[Revision, Party, str, Declared], bool]"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement bound to its judge, and to the messages on which it is judged."""

    requirement: str
    judge: Any
    about: Messages
    deep: bool
    lifetime: Lifetime = ALWAYS
    reaction: Reaction = ACCEPT
    only: "Only | None" = None
    holds_for: "HoldsFor | None" = None
    at: tuple[str, ...] = ()


RULES: Final[list[Rule]] = []


def state(
    requirement: str,
    about: Messages,
    *,
    lifetime: Lifetime = ALWAYS,
    reaction: Reaction = ACCEPT,
    only: "Only | None" = None,
    holds_for: "HoldsFor | None" = None,
    at: str = "",
) -> Callable[[Judge], Judge]:
    """Bind a judge of order, ids and capabilities, which endpoints obey too.

    Args:
        requirement: its id; the catalogue has its text, level and revisions.
        about: the messages to judge.
        lifetime: in which revisions endpoints enforce it; monitors ask the catalogue.
        reaction: what an endpoint does when its peer breaks the rule.
        only: what alone can break it: a message of the opening, or the reuse of an id or token.
        holds_for: for which methods it holds by the tables and the declared capabilities alone;
            endpoints then spare themselves the judge.
        at: the value that it objects to, see `places`.
    """

    def bind(judge: Judge) -> Judge:
        RULES.append(
            Rule(
                requirement=requirement,
                judge=judge,
                about=about,
                deep=False,
                lifetime=lifetime,
                reaction=reaction,
                only=only,
                holds_for=holds_for,
                at=(at,) if at else (),
            )
        )
        return judge

    return bind


def check(requirement: str, about: Messages, *, at: str = "") -> Callable[[AnyJudge], AnyJudge]:
    """Bind a judge that reads whole bodies to a requirement of the catalogue.

    Args:
        requirement: its id.
        about: the messages to judge.
        at: the value that it objects to, unless a breach names another; see `places`.
    """
    place = (at,) if at else ()

    def bind(judge: AnyJudge) -> AnyJudge:
        whole = _combine_each(judge) if isgeneratorfunction(judge) else cast("Judge", judge)
        RULES.append(Rule(requirement=requirement, judge=whole, about=about, deep=True, at=place))
        return judge

    return bind


def _combine_each(judge: "Callable[[Step, Conversation], Findings]") -> Judge:
    def combine_findings(step: "Step", conversation: "Conversation") -> Outcome:
        return combine(judge(step, conversation))

    return combine_findings


def combine(findings: Iterable[Finding]) -> Outcome:
    """Return the first few breaches; without any, True if something was tested, else None."""
    tested = False
    broken: list[str | Breach] = []
    for finding in findings:
        if finding is True:
            tested = True
        elif finding:
            broken.append(finding)
            if len(broken) == MOST_FINDINGS:
                break
    return broken or tested or None


def holds(about: Messages, *requirements: str) -> None:
    """Note that all such messages meet these requirements, which only others can break."""
    for requirement in requirements:
        check(requirement, about)(_is_met)


def _is_met(step: "Step", conversation: "Conversation") -> bool:
    return True


def breach_at(why: str, *place: str) -> Breach:
    """Return a breach with the place of the value in question, see `places`."""
    return Breach(why, at=place)


def breaches(rule: Rule, outcome: Outcome, step: "Step") -> list[Violation]:
    """Turn what a judge objected to into violations."""
    from accord.protocol.rules.places import find_place

    found = [outcome] if isinstance(outcome, str | Breach) else outcome
    violations = []
    for item in found:  # type: ignore[union-attr]  # a judge never returns False
        breach = Breach(item) if isinstance(item, str) else item
        violations.append(
            Violation(
                rule.requirement,
                step.sender,
                breach.why,
                severity=breach.severity,
                reaction=rule.reaction if breach.reaction is UNSET else breach.reaction,
                place=find_place(step, breach.at or rule.at),
            )
        )
    return violations


class Index:
    """The rules in force under one revision, found by sender, kind and method.

    With `settled`, the methods for which a rule is settled by the tables and by what was declared
    do without it.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        *,
        names: Iterable[str] = (),
        settled: Callable[[Rule, Party, str], bool] | None = None,
    ) -> None:
        self.rules = tuple(rules)
        known = frozenset([*names, *(name for rule in self.rules for name in rule.about.on or ())])
        self.found: dict[Party, dict[Kind, _Lookup]] = {
            party: {kind: _Lookup(self.rules, party, kind, known, settled) for kind in KINDS}
            for party in EITHER
        }

    # Read when the opening is over, so that the answer to it need not wait for them.

    @cached_property
    def free_requests(self) -> dict[Party, frozenset[str]]:
        """By sender, the methods that no rule can object to, unless an id or a token is reused."""
        return {party: self.found[party][REQUEST].free_names() for party in EITHER}

    @cached_property
    def free_results(self) -> dict[Party, frozenset[str]]:
        """The same for results, by the party that asked."""
        return {party: self.found[OTHER[party]][RESULT].free_names() for party in EITHER}


class _Lookup(dict[str, tuple[Rule, ...]]):
    """The rules for messages of one sender and kind by method, found when one is first asked for.

    Unknown names share one entry, so a peer cannot make it grow.
    """

    __slots__ = ("_known", "_near", "_others", "_party", "_settled")

    def __init__(
        self,
        rules: Iterable[Rule],
        party: Party,
        kind: Kind,
        known: frozenset[str],
        settled: Callable[[Rule, Party, str], bool] | None,
    ) -> None:
        super().__init__()
        self._party = party
        self._known = known
        self._settled = settled
        # First by what most rules differ in: a session waits for this.
        self._near = [r for r in rules if party in r.about.by and kind in r.about.kinds]
        self._others = tuple([rule for rule in self._near if rule.about.on is None])

    def __missing__(self, name: str) -> tuple[Rule, ...]:
        if name not in self._known:
            return self._others
        settled = self._settled
        found = self[name] = tuple(
            [
                rule
                for rule in self._near
                if (rule.about.on is None or name in rule.about.on)
                and not (settled and settled(rule, self._party, name))
            ]
        )
        return found

    def free_names(self) -> frozenset[str]:
        """Return the methods that no rule can object to, unless an id or a token is reused."""
        return frozenset(
            name
            for name in self._known - _LEARNED_FROM
            if all(rule.only == "reuse" for rule in self[name])
        )


@lru_cache(maxsize=256)
def enforced_rules(
    revision: RevisionId,
    *,
    ready: bool,
    client: frozenset[str] | None = None,
    server: frozenset[str] | None = None,
) -> Index:
    """Return the state rules that every endpoint obeys, before or after the opening.

    Args:
        revision: the one agreed on.
        ready: whether the opening is over; its rules cannot be broken any more.
        client: what the client declared, if that is known and final.
        server: what the server declared.
    """
    import accord.protocol.rules  # noqa: F401  # the state rules register themselves
    from accord.protocol.revisions import REVISIONS

    row = REVISIONS[revision]
    declared: Declared = {CLIENT: client, SERVER: server}
    return Index(
        (
            rule
            for rule in RULES
            if not rule.deep
            and revision in rule.lifetime
            and not (ready and rule.only == "opening")
        ),
        names=[method.name for method in row.methods],
        settled=lambda rule, party, name: (
            rule.holds_for is not None and rule.holds_for(row, party, name, declared)
        ),
    )
