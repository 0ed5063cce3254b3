"""`accord add`: put a server into the configurations of hosts."""

import argparse
import re
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import TEXT_OR_JSON, Commands, UsageError, add_command, is_json, one_of
from accord.cli.terminal import complain, confirm, escape_controls, note, painter, say, say_json
from accord_tools.hosts.commands.changes import WRITING, describe_plan, show_plans, write_plans
from accord_tools.hosts.commands.selection import (
    FILES,
    files_to_write,
    is_same_file,
    read_hosts,
    scope_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from accord.client.server_spec import HttpForm, ServerSpec
    from accord_tools.hosts.checking.findings import EntryReport
    from accord_tools.hosts.definition import ConfigFile, Host, Machine
    from accord_tools.hosts.operations.plan import PlannedChange

# Writes an entry as most hosts do.
_USUAL_FORM: Final = "cursor"
_HELP: Final = """\
usage: accord add [options] TARGET
       accord add [options] NAME=TARGET
       accord add [options] -- COMMAND ...

Put a server into the configurations of hosts: those that are installed here, or those of --host.
The entry has full paths, so that it works without the PATH and the folder of your shell. accord
launches the server the way the host will, shows the change as a diff, asks, and writes it: one
place of the file changes, every other byte stays, and accord hosts undo takes it back. A file that
cannot be read as it should is left alone.

TARGET is a URL, a Python file or module with a Server, a package (@scope/name, npm:NAME or
pypi:NAME), a bundle (.mcpb), a server.json of the registry, or a file with mcpServers (FILE#NAME if
it has several). What others wrote is launched or contacted after a question that shows it, and a
variable that a file names needs --env NAME, too.

A value that looks like a secret is not written into the file of the host: --env KEY without a value
lets the host fill it in from its environment. If the host does not do so, the entry launches the
server by accord exec, which reads the value from a file that only you can read.

Exit code: 0 written, or nothing to change; 1 the server does not work there, or you declined;
2 it could not be written.

examples:
  accord add server.py
  accord add tickets=server.py --host cursor --host claude-desktop
  accord add https://example.com/mcp --host codex --header 'Authorization: Bearer ${TOKEN}'
  accord add server.py --host vscode --scope project --env API_KEY
  accord add @modelcontextprotocol/server-memory
  accord add --host zed --name files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  accord add server.py --print
  accord add server.py --print goose
"""
_OPTIONS: Final = f"""\
target? TARGET  the server
rest* WORD
--config FILE  the configuration of a host, such as mcp.json; TARGET is the name of a server in it
{FILES.replace("(default: both)", "(default: user)")}\
--all         all hosts that are installed here (the default without --host)
--name NAME   the name of the entry (default: after the target)
--env K[=V]   a variable of the server; without a value the host fills it in; may be repeated
--header HEADER  'Name: value', for a URL; ${{NAME}} is filled in by the host; may be repeated
--cwd DIR     the folder that the server runs in
--transport T  for a URL: http or sse (default: http)
--timeout S   seconds that the server may take to start and answer here (default: 20)
{WRITING}\
--no-check    do not launch the server first
--literal-secrets  write values that look like secrets as they are
--print [HOST]  print the entry for this host, or as most hosts read it, and write nothing
--link HOST   print the link that makes this host ask its user to add the server
--open        with --link: open it
{TEXT_OR_JSON}
"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "add", run, _HELP, _OPTIONS, format="text", timeout=20.0)


def run(options: argparse.Namespace) -> int:
    """Plan, check, show, ask and write."""
    from accord.cli.terminal import escape_unprintable
    from accord_tools.hosts.definition import Machine
    from accord_tools.hosts.launching.environment import describe_trial

    machine = Machine.current()
    hosts = read_hosts(options)
    target = _read_target(options, machine)
    entry = _complete_entry(options, target, machine)
    with _unpack_bundle_of(target) as unpacked:
        if options.print or options.link:
            unpacked.is_used = True
            show = _print_entry if options.print else _print_link
            return show(options, hosts, entry, machine)
        if options.open:
            raise UsageError("--open needs --link HOST")
        if target.is_foreign:
            note(escape_unprintable(f"{entry.name} {describe_trial(entry)}"))
        needs_consent = target.is_foreign and not options.yes
        return _add(options, hosts, entry, machine, unpacked, needs_consent=needs_consent)


def _add(
    options: argparse.Namespace,
    hosts: "Mapping[str, Host]",
    entry: "ServerSpec",
    machine: "Machine",
    unpacked: "_UnpackedBundle",
    *,
    needs_consent: bool,
) -> int:
    planned, failures = _plan(options, files_to_write(options, hosts, machine), entry, machine)
    if not is_json(options):
        show_plans(planned)
    for failure, snippet in failures:
        complain(failure)
        if snippet:
            note(f"the file was left as it is; mend it, and add this by hand:\n{snippet}")
    if failures and (not planned or len(options.host) > 0):
        return 2
    is_tried = bool(planned) and not options.no_check and not options.dry_run
    if (
        is_tried
        and needs_consent
        and not confirm("try it now? [y/N] ", instead="--no-check adds it untried")
    ):
        note("nothing was launched, and nothing was written")
        return 1
    reports = _check(options, planned, machine) if is_tried else []
    if any(each.worst == "error" for each in reports):
        if is_json(options):
            _say_json(planned, reports, written=())
        note("nothing was written; --no-check writes it all the same")
        return 1
    code = _write(options, planned, reports, hosts)
    # Also if other hosts failed: these entries need the files.
    unpacked.is_used = code == 0 and not options.dry_run
    return code or (2 if failures else 0)


# -- the server


class _UnpackedBundle:
    """Whether an entry needs the files of a bundle, so that they stay."""

    is_used = False


@contextmanager
def _unpack_bundle_of(target: "ServerSpec") -> "Iterator[_UnpackedBundle]":
    """Unpack the bundle of a target; it is removed if its entry is not used after all."""
    state = _UnpackedBundle()
    if target.bundle is None:
        yield state
        return
    from shutil import rmtree

    from accord_tools.hosts.bundles.archive import unpack_bundle
    from accord_tools.hosts.bundles.entry import bundle_folder

    folder = bundle_folder(target.bundle)
    is_new = not folder.exists()
    unpack_bundle(target.bundle, folder)
    try:
        yield state
    finally:
        if is_new and not state.is_used:
            rmtree(folder, ignore_errors=True)


def _complete_entry(
    options: argparse.Namespace, target: "ServerSpec", machine: "Machine"
) -> "ServerSpec":
    """Return the server that the command line names, with the values of options."""
    from msgspec.structs import replace

    for remark in target.remarks:
        note(remark)
    entry = target
    needed = {each.name for each in target.needed}
    use = _value_filler(options, target, needed)
    env = {name: use(text) for name, text in entry.env.items()}
    env |= {name: _value(name, text) for name, text in options.env if name not in needed}
    headers = {name: use(text) for name, text in entry.headers.items()}
    headers |= {name: _fill(text) for name, text in options.header}
    if headers and not entry.url:
        raise UsageError("--header is for a URL; a launched server has variables, --env")
    if options.cwd and entry.url:
        raise UsageError("--cwd is for a server that is launched, not for a URL")
    is_typed = not target.is_foreign and options.target.endswith(entry.url)
    completed = replace(
        entry,
        command=tuple(use(each) for each in entry.command),
        url=use(_fill(entry.url) if is_typed else entry.url),
        env=env,
        headers=headers,
        cwd=str(_folder(options.cwd)) if options.cwd else entry.cwd and use(entry.cwd),
        transport=_transport(options, entry),
    )
    _demand_values(options, target, completed, machine)
    return completed


def _value_filler(
    options: argparse.Namespace, target: "ServerSpec", needed: "Collection[str]"
) -> "Callable[[str], str]":
    """Return a function that fills in the values of `--env`, and defaults of a foreign file."""
    from accord_tools.hosts.launching.environment import REFERENCE

    named = dict(options.env)

    def fill(found: re.Match[str]) -> str:
        name, default = found[2], found[3]
        if name in needed and named.get(name) is not None:
            return str(named[name])
        is_default = target.is_foreign and name not in named and default
        return default if is_default else found[0]

    return lambda text: REFERENCE.sub(fill, text)


def _transport(options: argparse.Namespace, entry: "ServerSpec") -> "HttpForm | None":
    if options.transport is None:
        return entry.transport
    if not entry.url:
        raise UsageError("--transport is for a URL; a launched server speaks stdio")
    kinds: tuple[HttpForm, ...] = ("http", "sse")
    return one_of(options.transport, kinds, "transport")


def _read_target(options: argparse.Namespace, machine: "Machine") -> "ServerSpec":
    from accord_tools.hosts.targets import TargetReader, read_target, suggest_package

    if not options.target and not options.command:
        raise UsageError("add needs a TARGET: a URL, a Python file, or -- and a command")
    text = f"{options.config}#{options.target}" if options.config else options.target
    given = {name: value for name, value in options.env if value is not None}
    reader = TargetReader(machine=machine, values=given)
    try:
        return read_target(
            text, options.rest, reader, command=options.command, name=options.name or ""
        )
    except UsageError as error:
        is_missing = str(error).startswith("there is no ")
        hint = suggest_package(options.target) if is_missing else ""
        raise UsageError(f"{error}{hint}") from None


def _demand_values(
    options: argparse.Namespace, target: "ServerSpec", entry: "ServerSpec", machine: "Machine"
) -> None:
    """Refuse a server whose values are neither given nor set here.

    Those of a foreign file have to be named: it must not choose what it gets of this shell.
    """
    from accord.client.server_spec import NeededValue
    from accord_tools.hosts.launching.environment import variables_in

    known = {each.name: each for each in target.needed}
    required = {name for name, each in known.items() if each.is_required}
    if target.is_foreign:
        required |= set(variables_in(entry))
    else:
        required -= set(machine.environ)
    missing = sorted(required - {name for name, _ in options.env})
    if not missing:
        return
    needed = [known.get(each) or NeededValue(name=each) for each in missing]
    lines = [f"{each.name} ({each.title or each.description or each.type})" for each in needed]
    first = missing[0]
    raise UsageError(
        f"{entry.name} needs {', '.join(lines)}: say --env {first}=VALUE, or --env {first} to have "
        "the host fill it in from its environment"
    )


def _folder(given: str) -> Path:
    folder = Path(given).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(f"--cwd: {folder} is not a folder")
    return folder


def _value(name: str, given: str | None) -> str:
    return f"${{env:{name}}}" if given is None else _fill(given)


def _fill(text: str) -> str:
    """Return a text with `${NAME}` as the canonical placeholder."""
    return re.sub(r"\$\{([A-Za-z_]\w*)\}", r"${env:\1}", text)


# -- planning


def _plan(
    options: argparse.Namespace,
    files: "Sequence[ConfigFile]",
    entry: "ServerSpec",
    machine: "Machine",
) -> "tuple[list[PlannedChange], list[tuple[str, str]]]":
    """Plan the change of each file; what is wrong with one does not stop the others.

    Returns:
        The plans, and why others are not possible, with a text to paste.
    """
    from accord_tools.hosts.definition import HostsError
    from accord_tools.hosts.operations.plan import plan_addition

    planned: list[PlannedChange] = []
    failures: list[tuple[str, str]] = []
    for file in files:
        try:
            plan = plan_addition(file, entry, machine, allow_literals=options.literal_secrets)
        except HostsError as error:
            failures.append(_explain(file, entry, machine, options, error))
            continue
        earlier = next((each for each in planned if is_same_file(each.file, [file])), None)
        if earlier is None:
            planned.append(plan)
        elif earlier.after == plan.after:
            note(f"{file.host.name} reads {file.path}, too, and gets the same entry")
        else:
            other = earlier.file.host.name
            said = f"{other} reads {file.path}, too, and needs the entry in another form"
            failures.append((f"{file.host.name}: {said}; name one of them with --host", ""))
    return planned, failures


def _explain(
    file: "ConfigFile",
    entry: "ServerSpec",
    machine: "Machine",
    options: argparse.Namespace,
    error: Exception,
) -> tuple[str, str]:
    """Return why a file cannot be changed, and the text to paste if the file is at fault."""
    from accord_tools.hosts.definition import HostsError
    from accord_tools.hosts.documents.document import UneditableDocument, UnreadableDocument

    said = f"{file.host.name}: {error}"
    if not isinstance(error, UnreadableDocument | UneditableDocument):
        return said, ""
    try:
        return said, _paste_text(options, file, entry, machine)
    except HostsError:
        return said, ""


# -- checking


def _check(
    options: argparse.Namespace, planned: "Sequence[PlannedChange]", machine: "Machine"
) -> "list[EntryReport]":
    """Launch the server as each host will; the same launch is done once."""
    import asyncio

    from accord_tools.hosts.commands.check import show_report
    from accord_tools.hosts.operations.plan import rehearse

    reports = asyncio.run(rehearse(planned, machine, seconds=options.timeout))
    for report in reports:
        if not is_json(options):
            show_report(report)
    return reports


# -- writing


def _write(
    options: argparse.Namespace,
    planned: "Sequence[PlannedChange]",
    reports: "Sequence[EntryReport]",
    hosts: "Mapping[str, Host]",
) -> int:
    from accord_tools.hosts.table import other_readers
    from accord_tools.hosts.writing.journal import Journal

    written = write_plans(planned, options, Journal())
    if written is None:
        return 1
    if is_json(options):
        _say_json(planned, reports, written)
        return 0
    paint = painter()
    for plan in planned if written else ():
        host = plan.file.host
        say(f"{paint('green', 'added')} {plan.name} to {escape_controls(str(plan.file.path))}\n")
        is_asked = plan.file.scope == "project" or host.approves == "all"
        approval = host.approval if is_asked else ""
        for remark in (approval, host.reload, _own_command(plan)):
            if remark:
                say(f"  {escape_controls(remark)}\n")
        for other in other_readers(plan.file, hosts.values()):
            say(f"  {other} reads this file, too, and expects its servers under another key\n")
    if written:
        say("accord hosts undo takes it back\n")
    return 0


def _own_command(plan: "PlannedChange") -> str:
    """Return how else to add a server to a host that rewrites its file while it runs."""
    from shlex import join

    from accord_tools.hosts.definition import HostsError
    from accord_tools.hosts.entries.links import install_command

    host = plan.file.host
    if not host.command or plan.file.scope == "project" or plan.adapted is None:
        return ""
    try:
        command = join(install_command(plan.adapted.entry, host))
    except HostsError:
        return ""
    return f"{host.name} may rewrite this file while it runs; if the entry vanishes: {command}"


def _say_json(
    planned: "Sequence[PlannedChange]", reports: "Sequence[EntryReport]", written: Sequence[Any]
) -> None:
    from accord_tools.hosts.commands.check import describe_report

    say_json(
        {
            "changes": [describe_plan(each) for each in planned],
            "checks": [describe_report(each) for each in reports],
            "written": [str(each.path) for each in written],
        }
    )


# -- printing


def _print_entry(
    options: argparse.Namespace,
    hosts: "Mapping[str, Host]",
    entry: "ServerSpec",
    machine: "Machine",
) -> int:
    from accord_tools.hosts.operations.adaptation import paste_place
    from accord_tools.hosts.table import find_host

    is_general = options.print == "text"  # no host was named
    host = find_host(hosts, _USUAL_FORM if is_general else options.print)
    file = paste_place(host, machine, scope_of(options) or "user")
    text = _paste_text(options, file, entry, machine)
    place = f"for {file.path}" if file.path.name else f"to paste into {host.name}"
    note("as most hosts read it; --print HOST prints it for one of them" if is_general else place)
    say(text)
    return 0


def _paste_text(
    options: argparse.Namespace, file: "ConfigFile", entry: "ServerSpec", machine: "Machine"
) -> str:
    """Return an entry to paste, after saying what to do beside that."""
    from accord_tools.hosts.operations.adaptation import adapt_entry, paste_remarks, paste_text

    literals = options.literal_secrets
    adapted = adapt_entry(entry, file.host, machine, scope=file.scope, allow_literals=literals)
    for remark in paste_remarks(adapted):
        note(remark)
    return paste_text(file, adapted)


def _print_link(
    options: argparse.Namespace,
    hosts: "Mapping[str, Host]",
    entry: "ServerSpec",
    machine: "Machine",
) -> int:
    from accord_tools.hosts.entries.links import install_link
    from accord_tools.hosts.operations.adaptation import adapt_entry, paste_remarks
    from accord_tools.hosts.table import find_host

    host = find_host(hosts, options.link)
    adapted = adapt_entry(entry, host, machine)
    link = install_link(adapted.entry, host)
    for remark in paste_remarks(adapted):
        note(remark)
    say(f"{link}\n")
    if options.open:
        import webbrowser

        if not webbrowser.open(link):
            raise UsageError("there is no browser to open the link with")
    return 0
