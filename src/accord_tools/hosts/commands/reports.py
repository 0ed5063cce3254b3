"""Reports of checks of hosts' entries, for people and for programs."""

from typing import TYPE_CHECKING, Any, Final

from accord.cli.terminal import escape_controls, painter, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accord_tools.hosts.checking.findings import Finding
    from accord_tools.hosts.checking.launch import LaunchFacts
    from accord_tools.hosts.checking.reports import EntryReport, FileReport

_STYLES: Final = {"error": "bold red", "warning": "yellow", "note": "dim"}
_VERDICTS: Final = {None: "ok", "note": "ok", "warning": "warning", "error": "failed"}
_VERDICT_STYLES: Final = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def show_report(report: "EntryReport") -> None:
    """Print the verdict about an entry, and what was found."""
    paint = painter()
    verdict = _VERDICTS[report.worst]
    mark = paint(_VERDICT_STYLES[verdict], f"{verdict:7}")
    name = escape_controls(report.name)
    facts = describe_launch(report.launched)
    say(f"{mark}  {report.file.host.name}: {name}{facts and f'  {facts}'}\n")
    show_findings(report.findings)


def show_file_report(report: "FileReport") -> None:
    """Print what was found about a file as a whole."""
    if report.findings:
        paint = painter()
        verdict = _VERDICTS[report.worst]
        path = escape_controls(str(report.file.path))
        mark = paint(_VERDICT_STYLES[verdict], f"{verdict:7}")
        say(f"{mark}  {report.file.host.name}: {path}\n")
        show_findings(report.findings)


def show_findings(findings: "Iterable[Finding]") -> None:
    """Print findings, with what to change."""
    paint = painter()
    for each in findings:
        # An error of syntax names the place itself.
        at = f"line {each.place.line}: " if each.place and each.code != "file-syntax" else ""
        blame = f"  ({each.code}, {each.blame})"
        text = escape_controls(f"{at}{each.message}")
        say(
            f"         {paint(_STYLES[each.severity], each.severity)}: {text}"
            f"{paint('dim', blame)}\n"
        )
        if each.change:
            say(f"           {escape_controls(each.change)}\n")
        if each.repair is not None:
            say("           accord hosts repair does this\n")


def describe_launch(facts: "LaunchFacts | None") -> str:
    """Return the facts of a conversation in one line."""
    if facts is None or not facts.revision:
        return ""
    server = " ".join(filter(None, (facts.server, facts.version)))
    counts = ", ".join(
        f"{count} {kind.removesuffix('s') if count == 1 else kind}"
        for kind, count in facts.counts.items()
    )
    parts = (server, facts.revision, counts, f"{facts.milliseconds} ms")
    return escape_controls(", ".join(each for each in parts if each))


def describe_report(report: "EntryReport") -> dict[str, Any]:
    """Return a report about an entry for programs."""
    import msgspec

    return {
        "host": report.file.host.id,
        "scope": report.file.scope,
        "file": str(report.file.path),
        "name": report.name,
        "verdict": _VERDICTS[report.worst],
        "findings": [describe_finding(each) for each in report.findings],
        "launch": msgspec.to_builtins(report.launched),
    }


def describe_finding(finding: "Finding") -> dict[str, Any]:
    """Return a finding for programs."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "blame": finding.blame,
        "message": finding.message,
        "change": finding.change or None,
        "line": finding.place.line if finding.place else None,
        "column": finding.place.column if finding.place else None,
        "repair": finding.repair.title if finding.repair else None,
    }
