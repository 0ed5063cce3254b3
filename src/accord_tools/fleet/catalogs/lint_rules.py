"""The rules of the lint: their ids, how much they matter, and what they find.

Ids are a contract: fleet files name them in `accept`. No rule judges meanings by a model, and none
moves a score.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from accord.cli.terminal import escape_unprintable
from accord_tools.fleet.results import CatalogFinding, Severity

MOST_OF_ONE_RULE: Final = 100
"""The most findings of one rule about one server; the others are counted."""


class LintRule(msgspec.Struct, frozen=True):
    """One rule of the lint.

    Attributes:
        id: for `accept`, and for reports.
        severity: of its findings; some of them may be `info` though the rule warns.
        finds: one sentence for people.
    """

    id: str
    severity: Severity
    finds: str


_ROWS: Final[tuple[LintRule, ...]] = (
    LintRule("surface.description-missing", "warn", "A tool or prompt has no description."),
    LintRule(
        "surface.description-repeats-name",
        "warn",
        "The description of a tool says nothing that its name does not say.",
    ),
    LintRule(
        "surface.description-short", "info", "The description of a tool is under 20 characters."
    ),
    LintRule(
        "surface.description-long", "info", "The description of a tool is over 1,024 characters."
    ),
    LintRule(
        "surface.parameters-undocumented",
        "warn",
        "Under half of the parameters of a tool have a description (info: under 80 %).",
    ),
    LintRule(
        "surface.annotations-missing",
        "warn",
        "A tool says neither whether it only reads nor whether it destroys.",
    ),
    LintRule(
        "surface.annotations-contradict",
        "warn",
        "The hints of a tool contradict each other, or contradict its name.",
    ),
    LintRule(
        "surface.name-length",
        "warn",
        "The name of a tool is over 64 characters, which hosts refuse (info: over 60 with the"
        " name of its server).",
    ),
    LintRule(
        "surface.name-characters",
        "warn",
        "The name of a tool has characters other than ASCII letters, digits, _ and - (info: a"
        " dot).",
    ),
    LintRule(
        "surface.names-mixed-style", "info", "The tools of one server are named in several styles."
    ),
    LintRule(
        "surface.schema-portable",
        "warn",
        "The schema of a tool uses keywords that some hosts reject (info: that they ignore).",
    ),
    LintRule(
        "surface.token-cost",
        "warn",
        "The list of tools costs a model over 10,000 tokens (info: one tool over 1,000, or all"
        " servers together over 10,000).",
    ),
    LintRule(
        "surface.too-many-tools",
        "warn",
        "A server has over 40 tools (info: all servers together), more than some hosts show.",
    ),
    LintRule(
        "safety.invisible",
        "warn",
        "A text that models read has characters that people do not see.",
    ),
    LintRule(
        "safety.collision",
        "warn",
        "Two tools have names that a model or a person may mistake for each other.",
    ),
    LintRule(
        "safety.names-other-server",
        "warn",
        "A text of one server names a tool or the name of another server.",
    ),
    LintRule(
        "safety.instruction",
        "info",
        "A text has words that attacks on models use; honest texts may have them too.",
    ),
    LintRule("safety.secret", "warn", "A text has the form of a token, a key or a password."),
    LintRule(
        "safety.changed",
        "warn",
        "A server offers something else than its lock file or the run before says.",
    ),
    LintRule("safety.plain-http", "warn", "A remote server is reached without TLS."),
    LintRule("safety.no-auth", "info", "A remote server lists its tools without a token."),
    LintRule(
        "safety.flow",
        "info",
        "Tools that read texts of strangers, read private data and send data out are together:"
        " a text of a stranger could make a model send private data.",
    ),
)
LINT_RULES: Final[Mapping[str, LintRule]] = {each.id: each for each in _ROWS}
"""Every rule of the lint by its id."""


def make_finding(
    id: str, text: str, *, subject: str = "", server: str = "", severity: Severity | None = None
) -> CatalogFinding:
    """Return a finding of a rule, with the rule's severity unless another one is given."""
    return CatalogFinding(
        id=id,
        severity=severity or LINT_RULES[id].severity,
        text=text,
        subject=subject,
        server=server,
    )


def limit_findings(
    findings: Iterable[CatalogFinding], most: int = MOST_OF_ONE_RULE
) -> Iterator[CatalogFinding]:
    """Yield findings; beyond so many of one rule, one more that counts the others."""
    counts: Counter[str] = Counter()
    left: dict[str, CatalogFinding] = {}
    for each in findings:
        counts[each.id] += 1
        if counts[each.id] <= most:
            yield each
        elif each.id not in left or each.severity == "warn":
            left[each.id] = each
    for id, each in left.items():
        yield make_finding(
            id,
            f"{counts[id] - most} more of these are not listed",
            server=each.server,
            severity=each.severity,
        )


def some_of(names: Iterable[str], most: int = 5, *, longest: int = 80) -> str:
    """Return the first names, cut and with nothing unprintable, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return ", ".join(escape_unprintable(each[:longest]) for each in listed[:most]) + more


def quote(text: str, longest: int = 80) -> str:
    """Return a text of a server between quotation marks, cut and with nothing unprintable."""
    return f'"{escape_unprintable(text[:longest])}"'
