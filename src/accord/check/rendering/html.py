"""Reports as one HTML page, readable without scripts, and as a badge for a project's front page.

The page is complete and may fetch nothing. Its content security policy allows only the style sheet
and the script of this package, by their digests, so injected text could not run.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

from accord.check.rendering import wording
from accord.check.rendering.wording import area_of, escape_unprintable
from accord.check.report import SCORE_RULE, VERDICTS, Report, RequirementResult
from accord.protocol.catalogue import LEVELS
from accord.protocol.revisions import in_order
from accord.protocol.verdict import Evidence, VerdictName

# Signs repeat what colours say.
_SIGNS: Final = {
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
# Up to this many violations are unfolded.
_UNFOLDED: Final = 3
_RADIUS: Final = 44
# Before and after a marked value.
_BEGIN: Final = "\x02"
_END: Final = "\x03"
_SIGN: Final = re.compile(f"([{_BEGIN}{_END}])")
_TAGS: Final = {_BEGIN: "<mark>", _END: "</mark>"}


def as_html(report: Report) -> str:
    """Return the report as one complete page."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)};"
        " base-uri 'none'; form-action 'none'"
    )
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
        "facts": _facts(report),
        "gauges": _gauges(report),
        "bar": _bar(report),
        "remarks": _remarks(report),
        "areas": _areas(report),
        "choices": (line for each in choices.items() for line in _choice(*each)),
        "chips": chips,
        "sections": _sections(report),
    }
    return Template(_asset("page.html")).substitute(
        {name: "\n".join(lines) for name, lines in parts.items()},
        policy=escape(policy),
        target=_safe(report.target),
        style=style,
        outcome=_outcome(report),
        version=_safe(report.version),
        script=script,
    )


def _asset(name: str) -> str:
    return files("accord.check.rendering").joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _safe(text: str) -> str:
    return escape(escape_unprintable(text))


# -- the summary


def _outcome(report: Report) -> str:
    state = wording.state(report)
    word, counts = wording.outcome(report)
    summary = {"pass": ": no violation was found", "not-exercised": ""}.get(state, f": {counts}")
    return (
        f'<p class="outcome {state}"><span aria-hidden="true">{_SIGNS[state]}</span>'
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
        "Date": setting.at,
        "Duration": None if setting.seconds is None else f"{setting.seconds:.1f} s",
    }
    for name, value in facts.items():
        if value is not None:
            yield f"<div><dt>{name}</dt><dd>{_safe(value)}</dd></div>"


def _gauges(report: Report) -> Iterator[str]:
    percent, coverage = wording.percent_covered(report), report.coverage
    state = wording.state(report)
    yield _ring(
        "covered",
        percent,
        f"{percent}%",
        f"<b>Coverage</b><br>{coverage.exercised} of {coverage.applicable} exercised",
    )
    shown = "none" if report.score is None else f"{report.score:g}"
    yield _ring(f"ring-{state}", report.score or 0, shown, "<b>Score</b><br>of 100")


def _ring(style: str, percent: float, shown: str, caption: str) -> str:
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
        f'<span class="mark {verdict}"><span aria-hidden="true">{_SIGNS[verdict]}</span>'
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
        yield f"<p><b>Tools</b> {_safe(line)}.</p>"
    for note in report.setting.notes:
        yield f"<p><b>Note</b>: {_safe(note)}.</p>"
    yield f"<p><b>Score</b>: {SCORE_RULE}. Rounded down: 100 means no violation.</p>"


def _areas(report: Report) -> Iterator[str]:
    heads = "".join(f'<th scope="col">{_HEADINGS[name]}</th>' for name in wording.columns(report))
    yield f'<thead><tr><th scope="col">Area</th>{heads}</tr></thead><tbody>'
    for area, counts in wording.by_area(report):
        cells = "".join(
            f'<td class="{f"is-{name}" if counts[name] else "none"}">{counts[name]}</td>'
            for name in wording.columns(report)
        )
        yield f'<tr><th scope="row">{_safe(area)}</th>{cells}</tr>'


def _choice(name: str, values: Iterable[str]) -> Iterator[str]:
    yield f'<label class="field">{name.capitalize()}<select name="{name}"><option value="">all'
    for value in values:
        yield f'<option value="{_safe(value)}">{_safe(value)}'
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
        yield f'<section aria-labelledby="all-{name}"><h2 id="all-{name}">{_HEADINGS[name]}'
        yield f' <span class="quiet count">{len(results)}</span></h2><div class="results">'
        for result in results:
            yield from _result(result, is_open=is_open)
        yield "</div></section>"
    yield '<p id="unmatched" class="card empty" hidden>No requirement fits these filters.</p>'


def _result(result: RequirementResult, *, is_open: bool) -> Iterator[str]:
    id, verdict = _safe(result.id), result.verdict
    is_broken = verdict in ("fail", "warn")
    summary = _safe(result.message if is_broken else result.clause)
    if verdict in ("not-exercised", "not-recorded", "not-applicable") and result.message:
        summary += f" <i>({_safe(result.message)})</i>"
    yield (
        f'<details class="result" id="{id}" data-verdict="{verdict}" data-level="{result.level}"'
        f' data-area="{_safe(area_of(result.id))}" data-party="{_safe(result.party)}"'
        f"{' open' if is_open else ''}>"
    )
    quiet = "" if is_broken else " quiet"
    yield (
        f'<summary>{_mark(verdict)}<span class="id">{id}</span>'
        f'<span class="tag">{result.level}, {_safe(result.party)}</span>'
        f'<span class="summary{quiet}">{summary}</span></summary>'
    )
    yield '<div class="inside">'
    yield f'<h3>Clause</h3><p class="clause"><b>{result.level}</b>: {_safe(result.clause)}'
    yield f"{_source(result)}</p>"
    if verdict == "pass" and result.message:
        yield f"<h3>Seen</h3><p>{_safe(result.message)}</p>"
    if is_broken and result.mend is not None:
        yield f'<h3>How to mend it</h3><p class="mend">{_safe(result.mend)}</p>'
    if result.also:
        links = ", ".join(f'<a href="#{_safe(each)}">{_safe(each)}</a>' for each in result.also)
        yield f"<h3>The same value also breaks</h3><p>{links}</p>"
    yield from _by_revision(result)
    yield from _evidence(result.evidence)
    if result.repeat is not None:
        yield (
            '<h3>Check just this again</h3><div class="again">'
            f"<pre><code>{_safe(result.repeat)}</code></pre>"
            '<button type="button" class="copy" hidden>Copy</button></div>'
        )
    yield "</div></details>"


def _source(result: RequirementResult) -> str:
    if result.anchor is None:
        return ""
    page = wording.page_of(result.anchor)
    shown = _safe(result.anchor)
    if page is not None:
        shown = f'<a href="{escape(page)}" rel="noreferrer">{shown}</a>'
    return f'<br><span class="quiet">Specification {shown}</span>'


def _by_revision(result: RequirementResult) -> Iterator[str]:
    yield '<h3>By revision</h3><ul class="by">'
    for revision in reversed(in_order(result.by_revision)):
        yield f"<li>{_safe(revision)} {_mark(result.by_revision[revision])}</li>"
    yield "</ul>"


def _evidence(evidence: Iterable[Evidence]) -> Iterator[str]:
    shown = [each for each in evidence if each.message is not None]
    if not shown:
        return
    yield "<h3>Evidence</h3><ol>"
    for each in shown:
        place = "" if each.number is None else f" (record {each.number})"
        if each.pointer is not None:
            place += f" at <code>{_safe(each.pointer)}</code>"
        speaker = f"<b>{_safe(each.party)}</b> {_safe(each.why)}{place}"
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
        shown = "".join(_TAGS.get(part) or _safe(part) for part in _SIGN.split(line))
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


# -- the badge

# White text on each of these has a contrast of at least 4.5 to 1.
_COLOURS: Final = {
    "fail": "#b42318",
    "warn": "#8a5a00",
    "pass": "#1a7f37",
    "not-exercised": "#5c6370",
}
_LABEL: Final = "MCP conformance"
# The width of a character at 11 pixels in a usual sans-serif face; the text is fitted to it.
_CHARACTER: Final = 6.2
_PADDING: Final = 7


def as_badge(report: Report) -> str:
    """Return score and coverage as SVG; the title has the target and the counts."""
    value = "not tested"
    if report.score is not None:
        value = f"{report.score:g}/100 \u00b7 {wording.percent_covered(report)}% covered"
    title = (
        f"{report.target}: score {wording.score(report)},"
        f" {wording.percent_covered(report)}% of the applicable requirements exercised,"
        f" {wording.breach_counts(report)}"
    )
    left, right = _width(_LABEL), _width(value)
    colour = _COLOURS[wording.state(report)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="{escape(f"{_LABEL}: {value}")}">\n'
        f"<title>{_safe(title)}</title>\n"
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="4"/></clipPath>\n'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3b4252"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>\n'
        '<g fill="#fff" text-anchor="middle" font-size="11"'
        ' font-family="Verdana,Geneva,DejaVu Sans,sans-serif">\n'
        f"{_text(_LABEL, left / 2, left)}\n{_text(value, left + right / 2, right)}\n"
        "</g>\n</svg>\n"
    )


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER) + 2 * _PADDING


def _text(text: str, middle: float, width: int) -> str:
    return f'<text x="{middle:g}" y="14" textLength="{width - 2 * _PADDING}">{escape(text)}</text>'
