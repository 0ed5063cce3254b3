"""Reports as one HTML page, readable without scripts.

The page is complete and may fetch nothing. Its content security policy allows only the style sheet
and the script of this package, by their digests, so injected text could not run. Templates escape
every value: its markup, and characters that cannot be printed.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accord.cli.terminal import escape_unprintable
from accord.errors import MissingExtra
from accord.protocol.catalogue import LEVELS
from accord.protocol.revisions import in_order
from accord.protocol.verdict import Evidence
from accord_tools.reports import wording
from accord_tools.reports.clauses import page_of
from accord_tools.reports.report import SCORE_RULE, VERDICTS, Report

if TYPE_CHECKING:
    from jinja2 import Environment

# Signs repeat what colours say.
SIGNS: Final = {
    "fail": "\u2715",
    "warn": "!",
    "pass": "\u2713",
    "not-exercised": "?",
    "not-recorded": "\u25cb",
    "not-applicable": "\u2013",
}
_HEADINGS: Final = {
    "fail": "Failed",
    "warn": "Warnings",
    "pass": "Passed",
    "not-exercised": "Not exercised",
    "not-recorded": "Not recorded",
    "not-applicable": "Not applicable",
}
_WORDS: Final = {**_HEADINGS, "warn": "Warning"}
# Shown for the pointer.
_LEVEL_WORDS: Final = {
    "MUST": "required: a violation fails",
    "MUST NOT": "forbidden: a violation fails",
    "SHOULD": "recommended: a violation warns",
    "SHOULD NOT": "advised against: a violation warns",
    "MAY": "optional",
}
_PARTY_WORDS: Final = {
    "server": "binds the server",
    "client": "binds the client",
    "sender": "binds the party that sends the message",
    "receiver": "binds the party that receives the message",
    "both": "binds both parties",
}
# Up to this many violations are unfolded.
_UNFOLDED: Final = 3
# Before and after a marked value.
_BEGIN: Final = "\x02"
_END: Final = "\x03"
_SIGN: Final = re.compile(f"([{_BEGIN}{_END}])")
# Characters of a text on a page; the whole is in the JSON form.
_MOST_LETTERS: Final = 400


def as_html(report: Report) -> str:
    """Return the report as one complete page."""
    return render_page("check.html", title=report.target, **check_facts(report))


def check_facts(report: Report) -> dict[str, Any]:
    """Return what the template `check.html` shows, except for its title."""
    areas = wording.by_area(report)
    order = {area: place for place, (area, _) in enumerate(areas)}
    shown = [name for name in VERDICTS if name in wording.columns(report)]
    values: dict[str, list[str]] = {
        "area": list(order),
        "level": [each for each in LEVELS if any(r.level == each for r in report.results)],
        "party": sorted({result.party for result in report.results}),
    }
    groups = [
        (
            name,
            sorted(
                (each for each in report.results if each.verdict == name),
                key=lambda each: order[wording.area_of(each.id)],
            ),
        )
        for name in VERDICTS
    ]
    word, _ = wording.outcome(report)
    headline = "" if wording.state(report) == "not-exercised" else f": {wording.headline(report)}"
    return {
        "product": "MCP conformance",
        "version": report.version,
        "report": report,
        "outcome_text": f"{word.capitalize()}{headline}",
        "verdicts": shown,
        "shares": bar_shares({name: report.count(name) for name in VERDICTS}),
        "areas": areas,
        "choices": {name: [(each, each) for each in found] for name, found in values.items()},
        "chips": [(name, _WORDS[name]) for name in shown],
        "groups": [(name, results) for name, results in groups if results],
        "is_short": report.count("fail") + report.count("warn") <= _UNFOLDED,
    }


# -- pages


def render_page(template: str, **facts: Any) -> str:
    """Return a page made with a template of this package.

    Raises:
        MissingExtra: the library for templates is not installed.
    """
    return _environment().get_template(template).render(facts)


@cache
def _environment() -> "Environment":
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise MissingExtra("cli", needed_for="a report as HTML") from None
    made = Environment(
        loader=PackageLoader("accord_tools.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_spell_out,
    )
    style, script = read_asset("common.css") + read_asset("report.css"), read_asset("report.js")
    made.filters |= {"cut": cut, "enumerated": _enumerate}
    made.globals |= {
        "HEADINGS": _HEADINGS,
        "LEVELS": _LEVEL_WORDS,
        "NEWLINE": Markup("\n"),
        "PARTIES": _PARTY_WORDS,
        "SCORE_RULE": SCORE_RULE,
        "SIGNS": SIGNS,
        "WORDS": _WORDS,
        "count_calls": wording.count_calls,
        "in_order": in_order,
        "page_of": page_of,
        "plural": wording.plural,
        "quote_message": quote_message,
        "words": wording,
        "policy": (
            f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)};"
            " base-uri 'none'; form-action 'none'"
        ),
        # Both are files of this package.
        "style": Markup(style),  # noqa: S704
        "script": Markup(script),  # noqa: S704
    }
    return made


def _spell_out(value: object) -> object:
    """Return a value of a template without characters that cannot be printed; not of markup."""
    return escape_unprintable(value) if type(value) is str else value


def read_asset(name: str) -> str:
    """Return the style sheet or script of a page."""
    return files("accord_tools.reports").joinpath("assets", name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def cut(text: str, most: int = _MOST_LETTERS) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= most else f"{text[:most].rstrip()}\u2026"


def _enumerate(values: Iterable[str], most: int) -> list[tuple[int, str]]:
    return [(place, cut(value, most)) for place, value in enumerate(values)]


class Share(NamedTuple):
    """A part of a bar: its colour, and its begin and width in percent."""

    verdict: str
    x: float
    width: float


def bar_shares(counts: Mapping[str, int]) -> Iterator[Share]:
    """Yield the parts of a bar, of each verdict that was counted."""
    total, x = sum(counts.values()), 0.0
    for verdict, count in counts.items():
        if count:
            yield Share(verdict, x, 100 * count / total)
            x += 100 * count / total


# -- messages


def quote_message(evidence: Evidence) -> Iterator[list[tuple[str, bool]]]:
    """Yield a message as indented lines: each is texts, and whether they are highlighted."""
    parts = wording.split_marked(evidence.message or "", evidence.mark)
    # Signs of our own; JSON has no control characters, and others are escaped.
    before, value, after = (_SIGN.sub(" ", part) for part in parts)
    marked = before if evidence.mark is None else f"{before}{_BEGIN}{value}{_END}{after}"
    is_inside = False
    for line in _indent_json(marked):
        shown = []
        if is_inside:
            text = line.lstrip()
            shown, line = [(line[: len(line) - len(text)], False)], text
        for part in _SIGN.split(line):
            if part in (_BEGIN, _END):
                is_inside = part == _BEGIN
            elif part:
                shown.append((part, is_inside))
        yield shown


def _indent_json(text: str) -> list[str]:
    """Break a message into indented lines; it may be cut off.

    It is not parsed, so that numbers and everything else stay exactly as they were sent.
    """
    if not text.lstrip().startswith(("{", "[")):
        return text.split("\n")
    lines, depth, quoted, escaped = [""], 0, False, False
    for sign in text:
        if quoted:
            lines[-1] += sign
            quoted = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
            continue
        quoted = sign == '"'
        if sign in "}]":
            depth = max(depth - 1, 0)
            # An empty object stays on its line.
            if lines[-1].strip():
                lines.append("  " * depth)
            else:
                lines.pop()
            lines[-1] += sign
        elif sign in "{[,":
            depth += sign != ","
            lines[-1] += sign
            lines.append("  " * depth)
        elif not sign.isspace():
            lines[-1] += ": " if sign == ":" else sign
    return [line for line in lines if line.strip()]
