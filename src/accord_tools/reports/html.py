"""Reports as one HTML page, readable without scripts, and as a badge for a project's front page.

The page is complete and may fetch nothing. Its content security policy allows only the style sheet
and the script of this package, by their digests, so injected text could not run.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import Final

from accord.protocol.catalogue import LEVELS
from accord.protocol.revisions import in_order
from accord.protocol.verdict import Evidence, VerdictName
from accord_tools.reports import wording
from accord_tools.reports.markdown import escape_html
from accord_tools.reports.report import SCORE_RULE, VERDICTS, Report, RequirementResult
from accord_tools.reports.wording import area_of

# Signs repeat what colours say.
SIGNS: Final = {
    "fail": "\u2715",
    "warn": "!",
    "pass": "\u2713",
    "not-exercised": "?",
    "not-recorded": "\u25cb",
    "not-applicable": "\u2013",
}
_RADIUS: Final = 44


def read_asset(name: str, package: str = "accord_tools.reports") -> str:
    """Return a style sheet, script or template of a package."""
    return files(package).joinpath(name).read_text("utf-8")


def page_policy(style: str, script: str) -> str:
    """Return a content security policy that allows one style sheet and one script, and no more."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)};"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def draw_ring(style: str, percent: float, shown: str, caption: str) -> str:
    """Return a ring that is filled so far, with a text inside and a caption in HTML below."""
    circle = f'<circle class="{{}}" cx="50" cy="50" r="{_RADIUS}" pathLength="100"{{}}/>'
    track = circle.format("track", "")
    # A dash of length 0 would still show as a dot.
    part = f' stroke-dasharray="{percent:g} 100" transform="rotate(-90 50 50)"'
    arc = circle.format(style, part) if percent else ""
    return (
        '<div class="gauge"><svg viewBox="0 0 100 100" aria-hidden="true">'
        f'{track}{arc}<text x="50" y="57">{shown}</text></svg>'
        f'<p><span class="unseen">{shown}</span> {caption}</p></div>'
    )


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
_OTHER_LEVEL: Final = "stated without such a keyword"
_PARTY_WORDS: Final = {
    "server": "binds the server",
    "client": "binds the client",
    "sender": "binds the party that sends the message",
    "receiver": "binds the party that receives the message",
    "both": "binds both parties",
}
_OTHER_PARTY: Final = "the party that the clause binds"
# Up to this many violations are unfolded.
_UNFOLDED: Final = 3
# Before and after a marked value.
_BEGIN: Final = "\x02"
_END: Final = "\x03"
_SIGN: Final = re.compile(f"([{_BEGIN}{_END}])")
_TAGS: Final = {_BEGIN: "<mark>", _END: "</mark>"}


def as_html(
    report: Report,
    *,
    back: str | None = None,
    title: str = "",
    about: Iterable[tuple[str, str]] = (),
) -> str:
    """Return the report as one complete page.

    Args:
        report: the report.
        back: the address of the page that lists all reports, if there is one.
        title: stands in the place of the target, which is a fact then.
        about: further facts, the first ones; values are HTML.
    """
    about = [*about, *([("Target", f"<code>{escape_html(report.target)}</code>")] if title else [])]
    style, script = read_asset("page.css"), read_asset("page.js")
    choices: dict[str, Sequence[str]] = {
        "area": [area for area, _ in wording.by_area(report)],
        "level": [each for each in LEVELS if any(r.level == each for r in report.results)],
        "party": sorted({result.party for result in report.results}),
    }
    chips = [
        f'<label class="chip"><input type="checkbox" name="verdict" value="{name}" checked>'
        f"{_WORDS[name]}</label>"
        for name in _shown_verdicts(report)
    ]
    parts = {
        "facts": (*(_fact(*each) for each in about), *_facts(report)),
        "gauges": _gauges(report),
        "bar": _bar(report),
        "remarks": _remarks(report),
        "areas": _areas(report),
        "choices": (line for each in choices.items() for line in _choice(*each)),
        "chips": chips,
        "sections": _sections(report),
    }
    return Template(read_asset("page.html")).substitute(
        {name: "\n".join(lines) for name, lines in parts.items()},
        policy=escape_html(page_policy(style, script)),
        target=escape_html(title or report.target),
        back="" if back is None else f'<a href="{escape_html(back)}">All servers</a>: ',
        style=style,
        outcome=_outcome(report),
        version=escape_html(report.version),
        script=script,
    )


# -- the summary


def _outcome(report: Report) -> str:
    state = wording.state(report)
    word, _ = wording.outcome(report)
    summary = "" if state == "not-exercised" else f": {escape_html(wording.headline(report))}"
    return (
        f'<p class="outcome {state}"><span aria-hidden="true">{SIGNS[state]}</span>'
        f" {word.capitalize()}{summary}</p>"
    )


def _facts(report: Report) -> Iterator[str]:
    setting = report.setting
    parties = {"both": "client and server"}
    facts = {
        "Checked": parties.get(setting.party, setting.party),
        "Transport": setting.transport,
        "Revision" if len(setting.revisions) == 1 else "Revisions": (
            ", ".join(setting.revisions)
            if report.revision
            else f"not named, judged by {report.judged_by}"
        ),
        "Rules": report.rules,
        "Date": setting.at,
        "Duration": None if setting.seconds is None else f"{setting.seconds:.1f} s",
    }
    for name, value in facts.items():
        if value is not None:
            yield _fact(name, escape_html(value))


def _fact(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>"


def _gauges(report: Report) -> Iterator[str]:
    percent, coverage = wording.percent_covered(report), report.coverage
    state = wording.state(report)
    yield draw_ring(
        "covered",
        percent,
        f"{percent}%",
        f"<b>Coverage</b><br>{coverage.exercised} of {coverage.applicable} exercised",
    )
    shown = "none" if report.score is None else f"{report.score:g}"
    caption = f"of 100, {wording.CAPPED}" if report.is_capped else "of 100"
    ring = "little" if wording.is_little_tested(report) else state
    yield draw_ring(f"ring-{ring}", report.score or 0, shown, f"<b>Score</b><br>{caption}")


def _shown_verdicts(report: Report) -> list[VerdictName]:
    return [name for name in VERDICTS if name in wording.columns(report)]


def _bar(report: Report) -> Iterator[str]:
    total = max(len(report.results), 1)
    yield (
        '<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="fill-not-applicable" width="100" height="1"/>'
    )
    x = 0.0
    for name in VERDICTS:
        wide = 100 * report.count(name) / total
        yield f'<rect class="fill-{name}" x="{x:.3f}" width="{wide:.3f}" height="1"/>'
        x += wide
    yield '</svg><ul class="counts">'
    for name in _shown_verdicts(report):
        yield f"<li>{_mark(name)} <b>{report.count(name)}</b></li>"
    yield "</ul>"


def _mark(verdict: str) -> str:
    return (
        f'<span class="mark {verdict}"><span aria-hidden="true">{SIGNS[verdict]}</span>'
        f" {_WORDS[verdict]}</span>"
    )


def _remarks(report: Report) -> Iterator[str]:
    coverage = report.coverage
    yield (
        f"<p><b>Coverage</b>: {coverage.applicable} requirements apply here and can be decided by"
        f" this kind of check; {coverage.exercised} of them were put to the test. A feature"
        " that the other side did not declare does not apply.</p>"
    )
    for line in wording.tool_lines(report):
        yield f"<p><b>Tools</b> {escape_html(line)}.</p>"
    for note in report.setting.notes:
        yield f"<p><b>Note</b>: {escape_html(note)}.</p>"
    yield f"<p><b>Score</b>: {SCORE_RULE}. Rounded down: 100 means no violation.</p>"


def _areas(report: Report) -> Iterator[str]:
    heads = "".join(f'<th scope="col">{_HEADINGS[name]}</th>' for name in wording.columns(report))
    yield f'<thead><tr><th scope="col">Area</th>{heads}</tr></thead><tbody>'
    for area, counts in wording.by_area(report):
        cells = "".join(
            f'<td class="{f"is-{name}" if counts[name] else "none"}">{counts[name]}</td>'
            for name in wording.columns(report)
        )
        yield f'<tr><th scope="row">{escape_html(area)}</th>{cells}</tr>'


def _choice(name: str, values: Iterable[str]) -> Iterator[str]:
    yield f'<label class="field">{name.capitalize()}<select name="{name}"><option value="">all'
    for value in values:
        yield f'<option value="{escape_html(value)}">{escape_html(value)}'
    yield "</select></label>"


# -- the results


def _sections(report: Report) -> Iterator[str]:
    broken = report.count("fail") + report.count("warn")
    if not report.results:
        yield '<p class="card empty">Nothing was checked.</p>'
    order = {area: place for place, (area, _) in enumerate(wording.by_area(report))}
    for name in VERDICTS:
        results = [result for result in report.results if result.verdict == name]
        if not results:
            continue
        results.sort(key=lambda result: order[area_of(result.id)])
        is_open = name in ("fail", "warn") and broken <= _UNFOLDED
        yield f'<section aria-labelledby="all-{name}"><details class="group"'
        yield f"{' open' if name in ('fail', 'warn') else ''}><summary>"
        yield f'<h2 id="all-{name}">{_HEADINGS[name]}'
        yield f' <span class="quiet count">{len(results)}</span></h2></summary>'
        yield '<div class="results">'
        for result in results:
            yield from _result(result, is_open=is_open)
        yield "</div></details></section>"
    yield '<p id="unmatched" class="card empty" hidden>No requirement fits these filters.</p>'


def _result(result: RequirementResult, *, is_open: bool) -> Iterator[str]:
    id, verdict = escape_html(result.id), result.verdict
    is_broken = verdict in ("fail", "warn")
    summary = escape_html(result.message if is_broken else result.clause)
    if verdict in ("not-exercised", "not-recorded", "not-applicable") and result.message:
        summary += f" <i>({escape_html(result.message)})</i>"
    yield (
        f'<details class="result" id="{id}" data-verdict="{verdict}" data-level="{result.level}"'
        f' data-area="{escape_html(area_of(result.id))}" data-party="{escape_html(result.party)}"'
        f"{' open' if is_open else ''}>"
    )
    quiet = "" if is_broken else " quiet"
    yield (
        f'<summary>{_mark(verdict)}<span class="id">{id}</span>'
        f'<span class="tag"><span title="{_LEVEL_WORDS.get(result.level, _OTHER_LEVEL)}">'
        f'{result.level}</span>, <span title="{_PARTY_WORDS.get(result.party, _OTHER_PARTY)}">'
        f"{escape_html(result.party)}</span></span>"
        f'<span class="summary{quiet}">{summary}</span></summary>'
    )
    yield '<div class="inside">'
    yield f'<h3>Clause</h3><p class="clause"><b>{result.level}</b>: {escape_html(result.clause)}'
    yield f"{_source(result)}</p>"
    if verdict == "pass" and result.message:
        yield f"<h3>Seen</h3><p>{escape_html(result.message)}</p>"
    if is_broken and result.mend is not None:
        yield f'<h3>How to mend it</h3><p class="mend">{escape_html(result.mend)}</p>'
    if result.also:
        links = ", ".join(
            f'<a href="#{escape_html(each)}">{escape_html(each)}</a>' for each in result.also
        )
        yield f"<h3>The same value also breaks</h3><p>{links}</p>"
    yield from _by_revision(result)
    yield from _evidence(result.evidence)
    if result.repeat is not None and verdict != "not-applicable":
        yield (
            '<h3>Check just this again</h3><div class="again">'
            f"<pre><code>{escape_html(result.repeat)}</code></pre>"
            '<button type="button" class="copy" hidden>Copy</button></div>'
        )
    yield "</div></details>"


def _source(result: RequirementResult) -> str:
    if result.anchor is None:
        return ""
    page = wording.page_of(result.anchor)
    shown = escape_html(result.anchor)
    if page is not None:
        shown = f'<a href="{escape_html(page)}" rel="noreferrer">{shown}</a>'
    return f'<br><span class="quiet">Specification {shown}</span>'


def _by_revision(result: RequirementResult) -> Iterator[str]:
    is_broken = result.verdict in ("fail", "warn")
    if not is_broken and len(set(result.by_revision.values())) == 1:
        yield f"<h3>Revisions</h3><p>{', '.join(reversed(in_order(result.by_revision)))}</p>"
        return
    yield '<h3>By revision</h3><ul class="by">'
    for revision in reversed(in_order(result.by_revision)):
        yield f"<li>{escape_html(revision)} {_mark(result.by_revision[revision])}</li>"
    yield "</ul>"


def _evidence(evidence: Iterable[Evidence]) -> Iterator[str]:
    shown = [each for each in evidence if each.message is not None]
    if not shown:
        return
    yield "<h3>Evidence</h3><ol>"
    for each in shown:
        place = "" if each.number is None else f" (record {each.number})"
        if each.pointer is not None:
            place += f" at <code>{escape_html(each.pointer)}</code>"
        speaker = f"<b>{escape_html(each.party)}</b> {escape_html(each.why)}{place}"
        yield f'<li><span class="speaker">{speaker}</span>'
        yield f"<pre>{_quote_message(each)}</pre></li>"
    yield "</ol>"


def _quote_message(evidence: Evidence) -> str:
    """Return a message as indented lines, with the value in question highlighted."""
    parts = wording.split_marked(evidence.message or "", evidence.mark)
    # Signs of our own; JSON has no control characters, and others are escaped.
    before, value, after = (_SIGN.sub(" ", part) for part in parts)
    marked = before if evidence.mark is None else f"{before}{_BEGIN}{value}{_END}{after}"
    # A mark ends with its line: those of one value look like one.
    lines, is_inside = [], False
    for line in _indent_json(marked):
        shown = "".join(_TAGS.get(part) or escape_html(part) for part in _SIGN.split(line))
        if is_inside:
            indent = len(shown) - len(shown.lstrip())
            shown = f"{shown[:indent]}<mark>{shown[indent:]}"
        is_inside = (is_inside or _BEGIN in line) and _END not in line
        lines.append(f"{shown}</mark>" if is_inside else shown)
    return "\n".join(lines)


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
