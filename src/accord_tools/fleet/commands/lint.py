"""`accord fleet lint`: look for faults in what servers offer, without launching them."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import TEXT_OR_JSON, UsageError, is_json, kind_of_work
from accord.cli.terminal import complain, escape_controls, note, painter, say, say_json, width
from accord_tools.fleet.definition import DEFAULT_FILE

if TYPE_CHECKING:
    from accord.types import JsonObject
    from accord_tools.fleet.definition import Fleet, FleetServer
    from accord_tools.fleet.results import CatalogFinding

_HELP: Final = """\
usage: accord fleet lint [options] [FILE]

Look for faults in what the servers of a fleet offer, as their lock files say: descriptions, hints,
names and schemas that hosts and models have trouble with, invisible characters, secrets, names of
tools that collide, rules of directories. Nothing is launched, nothing is sent.

Findings are warnings or hints. A fleet file accepts one with a reason and a last day:

  [[server.NAME.accept]]
  id = "surface.annotations-missing"
  reason = "the vendor is informed"
  until = 2027-01-31

Exit code: 0 done, 1 with --strict if a warning is not accepted, 2 no lock file could be read.

examples:
  accord fleet lint
  accord fleet lint servers.toml --strict --quiet
  accord fleet lint --format json
"""
_OPTIONS: Final = f"""\
file? FILE        the fleet file (default: {DEFAULT_FILE})
--strict          fail if there is a warning that is not accepted
--quiet           show warnings only, without hints and what is accepted
{TEXT_OR_JSON}
--allow-literals  read a file with values that look like secrets
"""
_STYLES: Final = {"warn": "yellow", "info": "cyan", "accepted": "dim"}
_SIGNS: Final = {"warn": "! warning", "info": "  hint", "accepted": "  accepted"}
_SUBJECTS: Final = 5
_INDENT: Final = " " * 6


@kind_of_work(_HELP, _OPTIONS, format="text")
def run(options: argparse.Namespace) -> int:
    """Lint what the lock files of a fleet say, and report."""
    from datetime import UTC, datetime

    from accord_tools.fleet.catalogs import lint_fleet
    from accord_tools.fleet.file.reader import read_fleet
    from accord_tools.fleet.judging import accept_findings
    from accord_tools.fleet.results import is_warning

    as_json = is_json(options)
    fleet = read_fleet(_path(options), allow_literals=options.allow_literals)
    catalogs = _read_catalogs(fleet)
    if not catalogs:
        complain(
            f'{fleet.path}: no lock file could be read; name them as [server.NAME] lock = "...",'
            " and write them with accord fleet --update-locks"
        )
        return 2
    found = [
        finding
        for server in fleet.servers
        if server.name in catalogs
        for finding in _lint_server(server, catalogs[server.name])
    ]
    found += lint_fleet(catalogs)
    judged = accept_findings(found, fleet.servers, today=datetime.now(UTC).date())
    if options.quiet:
        judged = tuple(filter(is_warning, judged))
    if as_json:
        say_json(_as_json(fleet, catalogs, judged))
    else:
        say(_as_text(fleet, catalogs, judged, is_quiet=options.quiet))
    return 1 if options.strict and any(map(is_warning, judged)) else 0


def _path(options: argparse.Namespace) -> Path:
    if not options.file and not Path(DEFAULT_FILE).is_file():
        raise UsageError(
            f"there is no {DEFAULT_FILE} here; accord fleet init writes one, or name a file"
        )
    return Path(options.file or DEFAULT_FILE)


def _read_catalogs(fleet: "Fleet") -> "dict[str, JsonObject]":
    """Return what each lock file says; servers without one are named on stderr."""
    from accord_tools.contract.lock_file import LockError, read_lock
    from accord_tools.fleet.catalogs.changes import explain_lock

    found = {}
    for server in fleet.servers:
        if server.lock is None:
            note(f"{server.name}: not looked at, because it has no lock file")
            continue
        try:
            found[server.name] = read_lock(server.lock)
        except LockError as error:
            note(f"{server.name}: not looked at: {explain_lock(error)}")
    return found


def _lint_server(server: "FleetServer", catalog: "JsonObject") -> "Iterator[CatalogFinding]":
    from accord.client.configuration import URL_MEMBERS
    from accord_tools.fleet.catalogs import check_readiness, lint_catalog, lint_remote

    members = (server.entry.get(each) for each in (*URL_MEMBERS, "uri"))
    url = next((each for each in members if isinstance(each, str)), "")
    yield from lint_catalog(catalog, server=server.name)
    if url:
        # Whether it demands a token is not known without asking it.
        yield from lint_remote(url, has_token=True, lists_tools=False, server=server.name)
    yield from check_readiness(
        server.readiness, catalog=catalog, url=url, verdicts=None, server=server.name
    )


# -- reports


def _as_json(
    fleet: "Fleet", catalogs: "dict[str, JsonObject]", found: "Iterable[CatalogFinding]"
) -> dict[str, Any]:
    listed = list(found)
    return {
        "fleet": fleet.name,
        "file": str(fleet.path),
        "servers": list(catalogs),
        "not_read": [each.name for each in fleet.servers if each.name not in catalogs],
        "findings": listed,
        "summary": _count(listed),
    }


def _count(found: "list[CatalogFinding]") -> dict[str, int]:
    from accord_tools.fleet.results import is_warning

    return {
        "warnings": sum(map(is_warning, found)),
        "hints": sum(each.severity == "info" and not each.accepted for each in found),
        "accepted": sum(bool(each.accepted) for each in found),
    }


def _as_text(
    fleet: "Fleet",
    catalogs: "dict[str, JsonObject]",
    found: "Iterable[CatalogFinding]",
    *,
    is_quiet: bool,
) -> str:
    from accord_tools.reports.wording import plural

    listed = list(found)
    paint = painter()
    lines: list[str] = []
    places = {
        server.name: _shorten(server.lock)
        for server in fleet.servers
        if server.lock is not None and server.name in catalogs
    }
    for name in ("", *places):
        about = [each for each in listed if each.server == name]
        if about:
            title = f"{name} ({places[name]})" if name else "servers together"
            lines += [paint("bold", escape_controls(title)), *_finding_lines(about), ""]
    count = _count(listed)
    counts = [plural(count["warnings"], "warning")]
    if not is_quiet:
        counts += [plural(count["hints"], "hint"), f"{count['accepted']} accepted"]
    lines.append(f"{plural(len(catalogs), 'server')}: {', '.join(counts)}")
    return "".join(f"{line}\n" for line in lines)


def _shorten(path: Path) -> Path:
    """Return a path relative to the working folder, if it is in it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _finding_lines(found: "Iterable[CatalogFinding]") -> Iterator[str]:
    """Yield the findings, warnings first; those with the same text are joined."""
    paint = painter()
    groups: dict[tuple[str, str, str, str, str], list[str]] = {}
    for each in found:
        state: str = "accepted" if each.accepted else each.severity
        key = (state, each.id, each.text, each.source, each.accepted)
        groups.setdefault(key, []).append(each.subject)
    order = list(_STYLES)
    for key, subjects in sorted(groups.items(), key=lambda item: order.index(item[0][0])):
        state, id, text, source, accepted = key
        named = _join(subjects)
        yield f"  {paint(_STYLES[state], _SIGNS[state])}  {id}{f': {named}' if named else ''}"
        yield from _indent(text)
        for detail in filter(None, (source, accepted)):
            yield from (paint("dim", line) for line in _indent(detail))


def _indent(text: str) -> list[str]:
    """Return a text as indented lines, which fit the terminal if there is one."""
    import textwrap

    plain = escape_controls(" ".join(text.split()))
    columns = width()
    if columns is None:
        return [f"{_INDENT}{plain}"]
    return textwrap.wrap(plain, max(40, columns), initial_indent=_INDENT, subsequent_indent=_INDENT)


def _join(subjects: list[str]) -> str:
    from accord.cli.terminal import escape_unprintable

    named = [escape_unprintable(each[:120]) for each in subjects if each]
    more = f" and {len(named) - _SUBJECTS} more" if len(named) > _SUBJECTS else ""
    return ", ".join(named[:_SUBJECTS]) + more
