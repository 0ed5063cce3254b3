"""The commands of `accord`: those of the library, and those that other packages bring.

A package brings a command by an entry point of the group `accord.commands`. Its name is that of the
command, its value a `Command` or a function that takes the subparsers of argparse and adds one; the
first line of the function's docstring says what the command does. Only the command that is asked
for is loaded, and all of them for `accord --help`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import accord

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from accord.cli.options import Commands

GROUP: Final = "accord.commands"
BUILD: Final = "build and use"
CHECK: Final = "check"
HOSTS: Final = "hosts"
OPERATE: Final = "operate"
OTHERS: Final = "from other packages"
HEADINGS: Final = (BUILD, CHECK, HOSTS, OPERATE, OTHERS)


class Command(NamedTuple):
    """A command, before its module is loaded.

    Attributes:
        place: `module`, or `module:function`; the function adds the parser (default: `register`).
        help: what the command does, in a few words.
        heading: the part of `accord --help` that lists it.
        takes_command: whether the command line of a server may follow after `--`.
        has_kinds: whether the module completes words in which no kind of work is named.
        package: the installed package that brings it.
    """

    place: str
    help: str
    heading: str = OTHERS
    takes_command: bool = False
    has_kinds: bool = False
    package: str = "accord"

    def register(self, commands: "Commands") -> None:
        """Add the command, with its options, to the command line.

        Raises:
            UsageError: it is a command of another package, and fails.
        """
        module, _, function = self.place.partition(":")
        try:
            attrgetter(function or "register")(accord._load(module))(commands)
        except (Exception, SystemExit) as error:
            if self.package == "accord":
                raise
            from accord.cli.options import UsageError

            reason = f"{type(error).__name__}: {error}"
            raise UsageError(
                f"a command of the package {self.package} cannot be loaded: {reason}"
            ) from error

    def complete(self, words: Sequence[str]) -> Sequence[str]:
        """Return the words of the command line, with the default kind of work if none is named."""
        if not self.has_kinds:
            return words
        completed: Sequence[str] = import_module(self.place).complete(words)
        return completed


class BrokenCommand(NamedTuple):
    """A command of an installed package that cannot be loaded."""

    package: str
    reason: str


class CommandGroup(NamedTuple):
    """A command with several kinds of work, such as `accord fleet lint`.

    Attributes:
        name: of the command.
        package: the package that has its modules.
        about: its help, before the options.
        examples: its help, after the options.
        kinds: for each kind of work, which its first word names, the module, or `module:function`,
            of the function that does it (default: `run`), and what it does.
        default: the kind that is meant if none is named.
    """

    name: str
    package: str
    about: str
    examples: str
    kinds: Mapping[str, tuple[str, str]]
    default: str

    def register(self, commands: "Commands") -> None:
        """Add the command, with all its kinds of work, to the command line."""
        from accord.cli.options import add_kind

        parser = commands.add_parser(self.name, description=self.about, epilog=self.examples)
        kinds = parser.add_subparsers(metavar="WHAT", required=True)
        for kind, (place, help) in self.kinds.items():
            module, _, function = place.partition(":")
            found = import_module(f"{self.package}.{module}")
            add_kind(kinds, kind, getattr(found, function or "run"), help)

    def complete(self, words: Sequence[str]) -> list[str]:
        """Return the words of the command line with the default where no kind is named."""
        command, *rest = words
        if rest and (rest[0] in self.kinds or rest[0] in ("-h", "--help")):
            return list(words)
        return [command, self.default, *rest]


LIBRARY: Final[Mapping[str, Command]] = {
    "run": Command(
        "accord.cli.run",
        "serve a server over stdin and stdout, or over HTTP",
        BUILD,
        takes_command=True,
    ),
    "proxy": Command(
        "accord.cli.proxy",
        "serve another server over another transport, in any revision",
        BUILD,
        takes_command=True,
    ),
    "list": Command("accord.cli.list", "show what a server offers", BUILD, takes_command=True),
    "call": Command(
        "accord.cli.call",
        "call a tool, read a resource, get a prompt",
        BUILD,
        takes_command=True,
    ),
    "auth": Command(
        "accord.cli.auth",
        "list and remove stored tokens and registrations",
        OPERATE,
        takes_command=True,
    ),
    "store": Command(
        "accord.cli.store", "look at the store of several workers, ask workers to drain", OPERATE
    ),
}
"""The commands of the library itself; `accord run` starts without a look at installed packages."""


def find_command(name: str) -> Command | BrokenCommand | None:
    """Return the command of this name; None if no installed package has it."""
    if name in LIBRARY:
        return LIBRARY[name]
    found = next(_entry_points(name), None)
    return None if found is None else _load(found)


def find_commands() -> dict[str, Command | BrokenCommand]:
    """Return all commands by name; where two packages have one name, that of accord counts."""
    found: dict[str, Command | BrokenCommand] = dict(LIBRARY)
    for each in _entry_points():
        if each.name not in found:
            found[each.name] = _load(each)
    return found


def load_extension(group: str, name: str) -> Callable[..., Any] | None:
    """Return the function that an installed package offers under a name; None without one."""
    found = next(_entry_points(name, group), None)
    return None if found is None else found.load()


def _entry_points(name: str | None = None, group: str = GROUP) -> Iterator["EntryPoint"]:
    # Imported late: `accord run` never needs it, and it takes as long as the rest of the parser.
    from importlib.metadata import PackageNotFoundError, distribution, entry_points

    chosen: dict[str, Any] = {"group": group} if name is None else {"group": group, "name": name}
    with suppress(PackageNotFoundError):
        # One file of our own is read sooner than those of all packages.
        yield from distribution("accord").entry_points.select(**chosen)
    found: Any = entry_points(**chosen)
    yield from found


def _load(entry: "EntryPoint") -> Command | BrokenCommand:
    package = entry.dist.name if entry.dist is not None else "an unknown package"
    try:
        found = entry.load()
    except (Exception, SystemExit) as error:
        return BrokenCommand(package, f"{type(error).__name__}: {error}")
    if isinstance(found, Command):
        return found._replace(package=package)
    if not callable(found):
        return BrokenCommand(package, f"{entry.value} is not a function")
    about = (found.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    place = f"{entry.module}:{entry.attr}"
    help = about or f"a command of {package}"
    return Command(place, help, takes_command=True, package=package)
