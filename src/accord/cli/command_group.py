"""Commands with several kinds of work, such as `accord fleet lint`."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

from accord.cli.options import Commands


class CommandGroup(NamedTuple):
    """A command, and the kinds of work that its first word names.

    Attributes:
        name: of the command; its modules are in the package `accord.cli.NAME`.
        about: its help, before the options.
        examples: its help, after the options.
        kinds: for each kind of work its module, and what it does.
        default: the kind that is meant if none is named.
    """

    name: str
    about: str
    examples: str
    kinds: Mapping[str, tuple[str, str]]
    default: str

    def register(self, commands: Commands) -> None:
        """Add the command, with all its kinds of work, to the command line."""
        parser = commands.add_parser(self.name, description=self.about, epilog=self.examples)
        kinds = parser.add_subparsers(metavar="WHAT", required=True)
        for kind, (module, help) in self.kinds.items():
            import_module(f"accord.cli.{self.name}.{module}").register(kinds, kind, help)

    def complete(self, words: Sequence[str]) -> list[str]:
        """Return the words of the command line with the default where no kind is named."""
        command, *rest = words
        if rest and (rest[0] in self.kinds or rest[0] in ("-h", "--help")):
            return list(words)
        return [command, self.default, *rest]
