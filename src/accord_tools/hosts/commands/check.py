"""`accord hosts check`: launch each server the way its host does, and say what is wrong."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import TEXT_OR_JSON, is_json, kind_of_work
from accord.cli.terminal import confirm, escape_controls, note, painter, progress, say, say_json
from accord_tools.hosts.commands.selection import FILES, demand_names, existing_files, read_hosts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from accord_tools.hosts.checking.findings import (
        EntryReport,
        FileReport,
        Finding,
        LaunchFacts,
    )
    from accord_tools.hosts.definition import Machine
    from accord_tools.hosts.operations.listing import FileEntry


# -- reports


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


# -- the command


_HELP: Final = """\
usage: accord hosts check [options] [NAME ...]

Check the configurations of hosts and every server in them, or those of these names. First what can
be seen without a launch: syntax, the right key and members for this host, programs that exist on
the PATH that the host has, scripts, variables, secrets. Then each server is launched the way its
host launches it: without a shell, with the host's PATH, variables and folder; it has to answer, and
list what it offers. Each finding names what is to blame (entry, server, host or machine), and what
to change.

Servers of project files are launched after a question, which says what they launch, contact and
get: others may have written these files. With --yes in its place, these servers get the variables
of this shell that --env names, and no others.

Exit code: 0 nothing is wrong, 1 something is, 2 a file cannot be read.

examples:
  accord hosts check
  accord hosts check tickets --host cursor
  accord hosts check --no-launch
  accord hosts check --deep --format json
"""
_OPTIONS: Final = f"""\
name* NAME    only the entries of these names
{FILES}\
--deep        also check all requirements of the protocol, as accord check server does
--no-launch   look at files and entries, and launch nothing
--timeout S   seconds for each server (default: 20)
--yes         launch servers of project files without a question
--env NAME    with --yes: a variable that entries of project files may name; may be repeated
{TEXT_OR_JSON}
"""


@kind_of_work(_HELP, _OPTIONS, format="text", timeout=20.0)
def run(options: argparse.Namespace) -> int:
    """Check files and entries, and print the reports."""
    import asyncio

    from accord_tools.hosts.checking.files import check_file, check_together
    from accord_tools.hosts.definition import Machine

    machine = Machine.current()
    files = [
        check_file(each, machine) for each in existing_files(options, read_hosts(options), machine)
    ]
    by_host: dict[str, list[FileReport]] = {}
    for each in files:
        by_host.setdefault(each.file.host.id, []).append(each)
    together = [found for each in by_host.values() for found in check_together(each, machine)]
    chosen = [
        (report, entry)
        for report in files
        for entry in report.entries.values()
        if not options.name or entry.name in options.name
    ]
    demand_names(options.name, files)
    granted = _ask_for_projects(options, chosen)
    if not is_json(options) and not options.name:
        for report in files:
            show_file_report(report)
        show_findings(together)
    entries = asyncio.run(_check(options, chosen, machine, granted))
    if is_json(options):
        _say_json(files, together, entries)
    elif not chosen:
        say("no server is configured in a host here\n")
    found = [*together]
    for report in files if not options.name else ():
        found += report.findings
    for entry in entries:
        found += entry.findings
    return 1 if any(each.severity == "error" for each in found) else 0


def _ask_for_projects(
    options: argparse.Namespace, chosen: "Sequence[tuple[FileReport, FileEntry]]"
) -> "Collection[str] | None":
    """Return the variables that servers of project files may have; None if they are not launched.

    Asks if there is a terminal.
    """
    import sys

    from accord.cli.terminal import escape_unprintable
    from accord_tools.hosts.launching.environment import describe_trial, variables_in

    entries = [
        found.entry for report, found in chosen if report.file.is_shared and found.entry is not None
    ]
    if not entries or options.no_launch:
        return None
    if options.yes:
        return set(options.env)
    for entry in entries:
        note(escape_unprintable(f"{entry.name} {describe_trial(entry)}"))
    paths = sorted({str(each.file.path) for each, _ in chosen if each.file.is_shared})
    if sys.stdin is None or not sys.stdin.isatty():
        note("servers of project files are not launched without --yes: " + ", ".join(paths))
        return None
    if not confirm(f"launch these servers of {', '.join(paths)}, too? [y/N] "):
        return None
    return {name for entry in entries for name in variables_in(entry)}


async def _check(
    options: argparse.Namespace,
    chosen: "Sequence[tuple[FileReport, FileEntry]]",
    machine: "Machine",
    granted: "Collection[str] | None",
) -> "list[EntryReport]":
    from accord_tools.hosts.checking.entries import check_entry, inspect_entry

    reports = []
    with progress("checking", len(chosen)) as advance:
        for done, (report, entry) in enumerate(chosen):
            advance(done, f"{report.file.host.name}: {entry.name}")
            if options.no_launch:
                found = inspect_entry(report.file, entry, machine)
            else:
                found = await check_entry(
                    report.file,
                    entry.name,
                    entry.keys,
                    entry.value,
                    machine,
                    deep=options.deep,
                    seconds=options.timeout,
                    granted=granted,
                )
            reports.append(found)
            if not is_json(options):
                show_report(found)
    return reports


def _say_json(
    files: "Sequence[FileReport]",
    together: "Sequence[Finding]",
    entries: "Sequence[EntryReport]",
) -> None:
    say_json(
        {
            "files": [
                {
                    "host": each.file.host.id,
                    "scope": each.file.scope,
                    "path": str(each.file.path),
                    "findings": [describe_finding(finding) for finding in each.findings],
                }
                for each in files
            ],
            "findings": [describe_finding(each) for each in together],
            "servers": [describe_report(each) for each in entries],
        }
    )
