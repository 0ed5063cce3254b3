"""`accord fleet run`: check all servers of a file side by side, compare, report."""

import argparse
import asyncio
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import UsageError, kind_of_work, known_revision, one_of
from accord.cli.terminal import escape_controls, is_rich, note
from accord_tools.fleet.commands.outputs import OUTPUTS, deliver_view, demand_outputs
from accord_tools.fleet.definition import FleetError
from accord_tools.reports.delivery import write_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord_tools.fleet.definition import Fleet, FleetServer
    from accord_tools.fleet.preparation import FleetSettings
    from accord_tools.fleet.results import FleetView, ServerResult


_SKIPPABLE: Final = ("check", "test", "measure")
_FAIL_ON: Final = ("failure", "regression", "warning", "drift", "never")
_DIRECTORIES: Final = ("claude", "openai")
_HELP: Final = """\
usage: accord fleet run [options] [FILE]
       accord fleet [options] [FILE]

Check all servers of a fleet file side by side, each in a process of its own: start it, list what it
offers, compare that with its lock, look for risky texts, check every requirement, run contract
tests and cases, measure its speed, stop it. Earlier results are reused where nothing changed.

FILE is accord-fleet.toml by default, or any file with mcpServers. Its programs are launched only
after you confirmed them: at the question, by --yes, or by accord fleet trust.

Exit code: 0 all servers are as expected, 1 at least one is not (see --fail-on), 2 the run could not
be made: the file is wrong, no server could be reached, or the run was interrupted.

examples:
  accord fleet
  accord fleet servers.toml --yes --output fleet.html --output fleet.json
  accord fleet --tag internal --jobs 4 --fail-on regression --fail-on failure
  accord fleet --server tickets --refresh tickets
  accord fleet --against branch:main --output site/
  accord fleet .mcp.json --skip test
"""
_OPTIONS: Final = f"""\
file? FILE         the fleet file (default: accord-fleet.toml)
--yes              launch the programs of the file without asking
--server NAME      only this server; may be repeated
--tag T            only servers with this tag; may be repeated
--owner O          only servers of this owner; may be repeated
--shard I/N        only the I-th of N parts of the servers, to share the work between machines
--jobs N           how many servers at once (default: 2 per core, at most 8)
--fail-fast        stop at the first server that is not as expected
--revision R       check under this revision instead of those of the file; may be repeated
--only ID          check only this requirement or area; may be repeated
--time S           seconds for each server instead of those of the file
--skip STAGE       leave out a stage: {", ".join(_SKIPPABLE)}; may be repeated
--readiness D      also apply the rules of a directory: {", ".join(_DIRECTORIES)}; may be repeated
--no-cache         make every result anew
--refresh NAME     make the result of this server anew; may be repeated
--update-locks     write the lock files that the file names, instead of comparing with them
--history FILE     the SQLite file where runs are kept (default: accord-fleet.sqlite)
--no-history       keep nothing, compare with nothing, reuse nothing
--against RUN      the run to compare with: last (default), a number, branch:NAME, a date, or a
                   .json file of an earlier run
--fail-on WHAT     what fails the run: {", ".join(_FAIL_ON)} (default: failure); may be repeated
--require-all      a server that was skipped means exit code 2
--allow-literals   accept values in the file that look like secrets
{OUTPUTS}"""


@kind_of_work(_HELP, _OPTIONS, against="last")
def run(options: argparse.Namespace) -> int:
    """Check all servers and report."""
    from accord_tools.fleet.fleet_runner import FleetRunner, RunEvents
    from accord_tools.fleet.history.history import open_history
    from accord_tools.fleet.rule_set import find_rule_set

    demand_outputs(options)
    settings = _settings(options)
    fleet = _read(options)
    servers = _choose(fleet, options)
    _demand_consent(fleet, options)
    rules = find_rule_set(fleet.rules, fleet.folder)
    path = None if options.no_history else _history_path(fleet, options)
    with (
        open_history(path) as history,
        live_display(len(servers), is_quiet=options.quiet) as display,
    ):
        events = RunEvents(
            on_progress=lambda name, step: display.advance(name, step.stage, step.share, step.now),
            on_result=display.finish,
        )
        runner = FleetRunner(fleet, rules, settings, history=history, events=events)
        view = asyncio.run(runner.run(servers))
    is_written = deliver_view(view, options)
    if options.update_locks:
        is_written &= write_locks(servers, view)
    return view.run.exit if is_written else 2


# -- what to run


def _settings(options: argparse.Namespace) -> "FleetSettings":
    from accord_tools.fleet.preparation import FleetSettings
    from accord_tools.fleet.running.pool import default_jobs

    fail_on = [one_of(each, _FAIL_ON, "value of --fail-on") for each in options.fail_on]
    if "never" in fail_on and len(fail_on) > 1:
        raise UsageError("--fail-on never contradicts the others")
    readiness: list[Any] = [
        one_of(word, _DIRECTORIES, "directory")
        for each in options.readiness
        for word in each.split(",")
    ]
    skipped: list[Any] = [one_of(each, _SKIPPABLE, "stage to skip") for each in options.skip]
    return FleetSettings(
        jobs=default_jobs() if options.jobs is None else options.jobs,
        fail_fast=options.fail_fast,
        is_reusing=not options.no_cache,
        refresh=frozenset(options.refresh),
        skipped=frozenset(skipped),
        readiness=tuple(readiness),
        against=options.against,
        fail_on=tuple(fail_on) or ("failure",),  # type: ignore[arg-type]  # checked above
        require_all=options.require_all,
        is_locking=options.update_locks,
    )


def _read(options: argparse.Namespace) -> "Fleet":
    from msgspec.structs import replace

    from accord_tools.fleet.catalogs.readiness import known_findings
    from accord_tools.fleet.definition import DEFAULT_FILE
    from accord_tools.fleet.file.reader import read_fleet
    from accord_tools.fleet.judging import RUN_FINDINGS

    if not options.file and not Path(DEFAULT_FILE).is_file():
        raise UsageError(
            f"there is no {DEFAULT_FILE} here; accord fleet init writes one, or name a file"
        )
    _refuse_misspelt_kind(options.file)
    fleet = read_fleet(
        Path(options.file or DEFAULT_FILE),
        allow_literals=options.allow_literals,
        lint_ids=known_findings() | RUN_FINDINGS,
    )
    changes: dict[str, Any] = {}
    if options.revision:
        changes["revisions"] = tuple(map(known_revision, options.revision))
    if options.only:
        from accord_tools.check.verdicts import demand_requirements

        demand_requirements(options.only)
        changes["only"] = tuple(options.only)
    if options.time is not None:
        changes["time"] = options.time
    if not changes:
        return fleet
    return replace(fleet, servers=tuple(replace(each, **changes) for each in fleet.servers))


def _refuse_misspelt_kind(named: str | None) -> None:
    """Refuse a word that is not a file but nearly a kind of work, as in `accord fleet histroy`."""
    from accord.cli.options import did_you_mean
    from accord_tools.fleet.commands import KINDS

    if named and "." not in named and not Path(named).exists():
        hint = did_you_mean(named, KINDS, lambda kind: f"accord fleet {kind}")
        if hint:
            raise UsageError(f"there is no file {named}{hint}")


def _choose(fleet: "Fleet", options: argparse.Namespace) -> "list[FleetServer]":
    """Return the servers that the options choose; a name that is unknown is an error."""
    from accord.cli.options import did_you_mean

    names = [each.name for each in fleet.servers]
    for name in (*options.server, *options.refresh):
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has {', '.join(names)}"
            raise UsageError(f"{fleet.path} has no server {name!r}{hint}")
    chosen = [
        each
        for each in fleet.servers
        if (not options.server or each.name in options.server)
        and (not options.tag or set(options.tag) & set(each.tags))
        and (not options.owner or each.owner in options.owner)
    ]
    if options.shard is not None:
        mine = shard([each.name for each in chosen], options.shard)
        chosen = [each for each in chosen if each.name in mine]
    if not chosen:
        raise UsageError(f"no server of {fleet.path} {_describe_choice(fleet, options)}")
    return chosen


def _describe_choice(fleet: "Fleet", options: argparse.Namespace) -> str:
    """Return what servers were chosen by, and what there is to choose from."""
    known = {
        "tag": sorted({tag for each in fleet.servers for tag in each.tags}),
        "owner": sorted({each.owner for each in fleet.servers if each.owner}),
    }
    for name, there in known.items():
        given = getattr(options, name)
        if given and not set(given) & set(there):
            hint = f"; there are {', '.join(there)}" if there else f"; no server has any {name}"
            return f"has the {name} {' or '.join(given)}{hint}"
    names = [each for each in ("server", "tag", "owner", "shard") if getattr(options, each)]
    return f"fits {' and '.join(f'--{each}' for each in names)}"


def _history_path(fleet: "Fleet", options: argparse.Namespace) -> Path:
    from accord_tools.fleet.definition import DEFAULT_HISTORY

    given: Path | None = options.history
    return fleet.path.parent / DEFAULT_HISTORY if given is None else given


# -- consent


def _demand_consent(fleet: "Fleet", options: argparse.Namespace) -> None:
    """Refuse to launch programs of a file that the user did not confirm.

    Raises:
        UsageError: they are not confirmed.
    """
    from accord.cli.terminal import confirm
    from accord_tools.fleet.commands.trust import launch_list
    from accord_tools.fleet.file.trust import TrustStore

    store = TrustStore()
    if options.yes or store.is_trusted(fleet):
        return
    has_changed = ", which changed since you trusted it," if store.is_known(fleet) else ""
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError(
            f"{fleet.path}{has_changed} launches and contacts what you have not confirmed:"
            f" look at it with accord fleet trust {fleet.path}, or say --yes"
        )
    note(f"{fleet.path}{has_changed} launches and contacts:")
    note(launch_list(fleet).rstrip("\n"))
    if not confirm("run them, now and later? [y/N] "):
        raise UsageError("nothing was launched")
    store.add(fleet)


# -- locks


def _is_free(path: Path) -> bool:
    """Return whether a lock may be written; any other file stays as it is."""
    from accord.cli.terminal import complain
    from accord_tools.contract.lock_file import LockError, read_lock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            read_lock(path)
    except OSError as error:
        complain(f"{path}: no lock was written: {error.strerror or error}")
        return False
    except LockError:
        complain(f"{path} exists and is not a lock file; remove it, or name another file as lock")
        return False
    return True


def write_locks(servers: "Sequence[FleetServer]", view: "FleetView") -> bool:
    """Write what each server offers into the lock file that the fleet file names."""
    from accord_tools.contract.lock_file import format_lock

    catalogs = {name: each.catalog for name, each in view.documents.items()}
    revisions = {each.name: each.catalog_revision or "" for each in view.run.results}
    texts = {
        server.lock: format_lock(catalog, revisions[server.name])
        for server in servers
        if server.lock is not None and (catalog := catalogs.get(server.name)) is not None
    }
    if not texts:
        note(
            "no lock was written: no server of the run names a lock file and could be listed;"
            ' write lock = "locks/{name}.lock.json" into [defaults]'
        )
    for path in texts:
        if not _is_free(path):
            return False
    if not write_files(texts, texts.__getitem__):
        return False
    for path in texts:
        note(f"{path} is written; keep it under version control")
    return True


# -- shards: each server belongs to one, whatever the others are


def shard(names: Iterable[str], part: str) -> list[str]:
    """Return the names that belong to a part such as "2/5"; every name belongs to one of the five.

    Raises:
        FleetError: it is not such a text.

    >>> sorted(name for n in "123" for name in shard(["a", "b", "c", "d"], f"{n}/3"))
    ['a', 'b', 'c', 'd']
    """
    found = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", part)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise FleetError(f"shard {part!r}: expected NUMBER/COUNT, such as 2/5")
    return [name for name in names if _place(name, count) == number - 1]


def _place(name: str, count: int) -> int:
    from hashlib import sha256  # loads OpenSSL, which the help of a command need not

    return int.from_bytes(sha256(name.encode()).digest()[:8], "big") % count


# -- what a person sees meanwhile: a table on a terminal, else a line per server


# A terminal shows about so many lines; more servers than that are counted.
_MOST_ROWS: Final = 30
_SIGNS: Final = {
    "ok": ("green", "ok"),
    "failed": ("bold red", "FAILED"),
    "unreachable": ("bold red", "UNREACHABLE"),
    "timed-out": ("bold red", "TIMED OUT"),
    "skipped": ("dim", "skipped"),
}


def describe_result(result: "ServerResult") -> str:
    """Return a result in one line."""
    from accord.cli.terminal import escape_unprintable
    from accord_tools.fleet.history.comparison import short_time
    from accord_tools.fleet.rendering.wording import tests_text

    words = [_SIGNS[result.state][1]]
    if result.applicable:
        words.append(
            f"{result.failures} failed, {result.warnings} warned,"
            f" {result.exercised} of {result.applicable} exercised"
        )
        words.append("no score" if result.score is None else f"score {result.score:g}")
    if result.tests.is_wanted:
        words.append(f"tests {tests_text(result)}")
    if result.reused_from:
        words.append(f"reused, of {short_time(result.reused_from)}")
    line = f"{result.name}: {', '.join(words)} ({result.seconds:.1f} s)"
    # One line, whatever a server says: others would look like lines of ours.
    return escape_unprintable(f"{line}: {result.reasons[0]}" if result.reasons else line)


class LiveDisplay:
    """Shows how far the run is: prints a line when a server is finished."""

    def __init__(self, total: int, *, is_quiet: bool = False) -> None:
        self._total = total
        self._done = 0
        self._is_quiet = is_quiet

    def advance(self, name: str, stage: str, share: float, now: str) -> None:
        """Show what is done at the moment."""

    def finish(self, result: "ServerResult") -> None:
        """Show the result of a server."""
        self._done += 1
        if not self._is_quiet:
            note(f"[{self._done}/{self._total}] {describe_result(result)}")


class _Table(LiveDisplay):
    """Rewrites a table with the servers that are worked on, below the lines of finished ones."""

    def __init__(self, total: int, console: Any) -> None:
        super().__init__(total)
        self._console = console
        self._wrong = 0
        self._working: dict[str, tuple[str, float, str]] = {}
        self._began = monotonic()

    def advance(self, name: str, stage: str, share: float, now: str) -> None:
        self._working[name] = (stage, share, now)

    def finish(self, result: "ServerResult") -> None:
        from rich.text import Text

        self._working.pop(result.name, None)
        self._done += 1
        self._wrong += not result.is_as_expected
        style, _ = _SIGNS[result.state]
        self._console.print(
            Text(describe_result(result), style=style, no_wrap=True, overflow="ellipsis")
        )

    def __rich__(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=30)
        table.add_column(no_wrap=True, width=8)
        table.add_column(width=16)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for name, (stage, share, now) in list(self._working.items())[:_MOST_ROWS]:
            shown = escape_controls(now).replace("\n", " ")
            bar = ProgressBar(total=1.0, completed=share, width=16)
            table.add_row(Text(escape_controls(name)), stage, bar, Text(shown, style="dim"))
        wrong = f", {self._wrong} not as expected" if self._wrong else ""
        passed = monotonic() - self._began
        table.add_row(
            Text(f"{self._done} of {self._total} servers{wrong}", style="bold"),
            f"{passed:.0f} s",
            ProgressBar(total=max(self._total, 1), completed=self._done, width=16),
            "",
        )
        return table


@contextmanager
def live_display(total: int, *, is_quiet: bool = False) -> Iterator[LiveDisplay]:
    """Show the progress of a run on stderr: a table on a terminal, else lines.

    Args:
        total: how many servers there are.
        is_quiet: show nothing.
    """
    if is_quiet or not is_rich(sys.stderr):
        yield LiveDisplay(total, is_quiet=is_quiet)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    table = _Table(total, console)
    with Live(table, console=console, refresh_per_second=4, transient=True):
        yield table
