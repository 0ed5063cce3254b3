"""Rules of directories that list servers: which of them a server does not fulfil.

The rules are data, in readiness.toml, each with the page of the policy and the day of its reading.
What needs people, payments or a listing is not decided here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple, TypeAlias, get_args
from urllib.parse import urlsplit

import msgspec

from accord.json_schema.reader import properties_of, resolve
from accord.protocol.verdict import VerdictName
from accord.types import JsonObject
from accord_tools.fleet.catalogs.entries import (
    CatalogEntry,
    annotations_of,
    entries_of,
    text_at,
    tool_schema,
    word_set,
    words_of,
)
from accord_tools.fleet.catalogs.lint import lint_catalog
from accord_tools.fleet.catalogs.lint_rules import LINT_RULES, some_of
from accord_tools.fleet.catalogs.quality import LONG_NAME
from accord_tools.fleet.definition import Directory
from accord_tools.fleet.results import CatalogChange, CatalogFinding, Severity
from accord_tools.reports.wording import plural

UNDECIDED: Final = "directory.undecided"
"""The id of the finding that names rules which a check did not put to the test."""

_DIRECTORY_NAMES: Final[Mapping[Directory, str]] = {
    "claude": "Claude directory",
    "openai": "ChatGPT directory",
}
_HINTS: Final = ("readOnlyHint", "destructiveHint", "openWorldHint")
_READING: Final = word_set("describe fetch find get list load query read search select show view")
_WRITING: Final = word_set(
    "add append create delete drop edit execute insert modify patch post publish put remove rename"
    " replace run send set submit update upload upsert write"
)
_CHOOSING: Final = word_set("action command method mode op operation verb")


class ReadinessRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of a directory; one of `lint`, `requirements` and `check` decides it.

    Attributes:
        id: of its findings.
        directory: whose rule it is.
        title: the rule, as a part of a sentence.
        severity: `warn` for demands, `info` for advice.
        page: of the policy.
        read: the day of the reading.
        lint: findings that break it.
        requirements: of the catalogue; a failure breaks it.
        check: a function of this module.
        one_is_enough: whether one requirement that passes outweighs the others.
    """

    id: str
    directory: Directory
    title: str
    severity: Severity
    page: str
    read: date
    lint: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    check: str = ""
    one_is_enough: bool = False

    @property
    def source(self) -> str:
        """The policy and the day of its reading, for people."""
        return f"{_DIRECTORY_NAMES[self.directory]}, {self.page}, read {self.read}"


class _Facts(NamedTuple):
    """All that is known about a server."""

    catalog: JsonObject
    tools: list[CatalogEntry]
    url: str
    changes: Sequence[CatalogChange]


@cache
def readiness_rules() -> tuple[ReadinessRule, ...]:
    """Return every rule of every directory."""
    import tomllib

    text = files("accord_tools.fleet.catalogs").joinpath("readiness.toml").read_text("utf-8")
    return tuple(msgspec.convert(tomllib.loads(text)["rule"], list[ReadinessRule]))


def check_readiness(
    directories: Sequence[Directory],
    *,
    catalog: JsonObject,
    url: str,
    verdicts: Mapping[str, VerdictName] | None,
    changes: Sequence[CatalogChange] = (),
    server: str = "",
) -> tuple[CatalogFinding, ...]:
    """Return which rules of directories a server does not fulfil.

    Each finding names the policy and the day of its reading in `source`: read the page before you
    rely on it.

    Args:
        directories: "claude", "openai".
        catalog: what the server offers.
        url: of a remote server; empty for a program that is launched.
        verdicts: of a check, by requirement; None if it was not made, which leaves out the rules
            about authorization.
        changes: of the catalog since it was published.
        server: the name of the server in the fleet.
    """
    rules = [each for each in readiness_rules() if each.directory in directories]
    if not rules:
        return ()
    facts = _Facts(catalog, list(entries_of(catalog, "tools")), url, changes)
    needs_lint = any(each.lint for each in rules)
    linted = lint_catalog(catalog, server=server) if needs_lint else ()
    found: list[CatalogFinding] = []
    undecided: dict[Directory, list[ReadinessRule]] = {}
    for rule in rules:
        if rule.check in _TOOL_CHECKS:
            texts: Iterable[str] = _check_tools(rule.check, facts.tools)
        elif rule.check:
            texts = _CHECKS[rule.check](facts)
        elif rule.lint:
            texts = _broken_lint(rule, linted)
        elif verdicts is None or not url:
            continue
        else:
            texts = list(_broken_requirements(rule, verdicts))
            if not texts and not _is_decided(rule, verdicts):
                undecided.setdefault(rule.directory, []).append(rule)
        found += [_finding(rule, text, server) for text in texts]
    found += [_undecided_finding(each, server) for each in undecided.values()]
    return tuple(found)


def _finding(rule: ReadinessRule, text: str, server: str) -> CatalogFinding:
    return CatalogFinding(
        id=rule.id,
        severity=rule.severity,
        text=f"{_DIRECTORY_NAMES[rule.directory]}: {rule.title}; {text}",
        server=server,
        source=rule.source,
    )


def _undecided_finding(rules: Sequence[ReadinessRule], server: str) -> CatalogFinding:
    first = rules[0]
    titles = "; ".join(each.title for each in rules)
    return CatalogFinding(
        id=UNDECIDED,
        severity="info",
        text=f"{_DIRECTORY_NAMES[first.directory]}: {plural(len(rules), 'rule')} about"
        " authorization could not be decided, because the check did not put them"
        f" to the test: {titles}",
        server=server,
        source=first.source,
    )


# -- rules that lint or the check decide


def _broken_lint(rule: ReadinessRule, linted: Iterable[CatalogFinding]) -> Iterator[str]:
    broken = [
        each.subject or each.text
        for each in linted
        if each.id in rule.lint and each.severity == "warn"
    ]
    if broken:
        yield f"not so: {some_of(broken, longest=120)}"


def _broken_requirements(rule: ReadinessRule, verdicts: Mapping[str, VerdictName]) -> Iterator[str]:
    found = {id: verdicts.get(id) for id in rule.requirements}
    broken = [id for id, verdict in found.items() if verdict in ("fail", "warn")]
    if broken and not (rule.one_is_enough and "pass" in found.values()):
        yield f"the check found otherwise: {', '.join(broken)}"


def _is_decided(rule: ReadinessRule, verdicts: Mapping[str, VerdictName]) -> bool:
    return any(verdicts.get(id) in ("pass", "fail", "warn") for id in rule.requirements)


# -- rules with a function of their own


def _check_https(facts: _Facts) -> Iterator[str]:
    if urlsplit(facts.url).scheme.lower() in ("http", "ws"):
        yield "it is not: serve it with TLS"


def _check_remote(facts: _Facts) -> Iterator[str]:
    if not facts.url:
        yield "it is a program: serve it over HTTP"


def _describe_missing_hints(tool: CatalogEntry) -> Iterator[str]:
    hints = annotations_of(tool)
    absent = [hint for hint in _HINTS if not isinstance(hints.get(hint), bool)]
    if absent:
        yield f"{tool.name} ({', '.join(absent)})"


def _describe_joint_operations(tool: CatalogEntry) -> Iterator[str]:
    for name, values in _choices(tool):
        if _has_verb(values, _READING) and _has_verb(values, _WRITING):
            yield f"{tool.name} (by {name})"


def _describe_open_operations(tool: CatalogEntry) -> Iterator[str]:
    chosen = {name for name, _ in _choices(tool)}
    schema = tool_schema(tool)
    for name, member in properties_of(schema).items():
        is_text = resolve(member, schema).get("type") == "string"
        if is_text and name.lower() in _CHOOSING and name not in chosen:
            yield f"{name} of {tool.name}"


def _has_both_hints(tool: CatalogEntry) -> bool:
    hints = annotations_of(tool)
    return hints.get("readOnlyHint") is True and hints.get("destructiveHint") is True


def _lacks_title(tool: CatalogEntry) -> bool:
    titles = (text_at(tool, "title"), str(annotations_of(tool).get("title") or ""))
    return not any(map(str.strip, titles))


_Describe: TypeAlias = Callable[[CatalogEntry], Iterable[str]]


def _names(is_wrong: Callable[[CatalogEntry], bool]) -> _Describe:
    return lambda tool: [tool.name] if is_wrong(tool) else []


# What is said about tools, and what it names of each.
_TOOL_CHECKS: Final[Mapping[str, tuple[str, _Describe]]] = {
    "hints-agree": ("these say both: {}", _names(_has_both_hints)),
    "name-length": ("shorten {}", _names(lambda tool: len(tool.name) > LONG_NAME)),
    "named-operations": ("give an enum to {}", _describe_open_operations),
    "object-schema": ("not so: {}", _names(lambda e: tool_schema(e).get("type") != "object")),
    "separate-writes": ("split {}", _describe_joint_operations),
    "three-hints": ("missing: {}", _describe_missing_hints),
    "titles": ("without title: {}", _names(_lacks_title)),
}


def _check_tools(check: str, tools: Iterable[CatalogEntry]) -> Iterator[str]:
    text, describe = _TOOL_CHECKS[check]
    if named := [name for tool in tools for name in describe(tool)]:
        yield text.format(some_of(named, longest=120))


def _check_changes(facts: _Facts) -> Iterator[str]:
    if facts.changes:
        breaking = [each for each in facts.changes if each.kind == "breaking"]
        subjects = dict.fromkeys(each.subject for each in breaking or facts.changes)
        kind = "breaking changes" if breaking else "changes"
        yield f"{kind} since the lock or the run before: {some_of(subjects, longest=120)}"


_CHECKS: Final[Mapping[str, Callable[[_Facts], Iterator[str]]]] = {
    "changes": _check_changes,
    "https": _check_https,
    "remote": _check_remote,
}


def _choices(entry: CatalogEntry) -> Iterator[tuple[str, list[str]]]:
    """Yield the parameters of a tool that list their values, with these values."""
    schema = tool_schema(entry)
    for name, member in properties_of(schema).items():
        resolved: dict[str, Any] = resolve(member, schema)
        values = resolved.get("enum")
        if not isinstance(values, list):
            options = resolved.get("oneOf") or resolved.get("anyOf")
            parts = options if isinstance(options, list) else []
            values = [each.get("const") for each in parts if isinstance(each, dict)]
        texts = [each for each in values if isinstance(each, str)]
        if texts:
            yield name, texts


def _has_verb(values: Iterable[str], verbs: frozenset[str]) -> bool:
    return any(words[:1] and words[0] in verbs for words in map(words_of, values))


def known_findings() -> frozenset[str]:
    """Return the ids of all findings about catalogs and directories, for `accept`."""
    return frozenset({*LINT_RULES, *(each.id for each in readiness_rules()), UNDECIDED})


DIRECTORIES: Final[tuple[Directory, ...]] = get_args(Directory)
"""The directories whose rules are known."""
