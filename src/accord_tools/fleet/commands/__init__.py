"""`accord fleet`: check many servers of one file, compare them with earlier runs, show them."""

from typing import Final

from accord.cli.commands import CommandGroup

_HELP: Final = """\
Check all servers of one file side by side: every requirement, contract tests, your cases, what
they offer against a lock, and how fast they are. Runs are kept, so that each is compared with the
one before.

accord fleet [FILE] is short for accord fleet run [FILE]; FILE is accord-fleet.toml by default, or
any file with mcpServers.

Exit code: 0 all is as expected, 1 something is not, 2 the command could not run.
"""
_EXAMPLES: Final = """\
examples:
  accord fleet init
  accord fleet
  accord fleet servers.toml --output fleet.html --fail-on regression
  accord fleet history tickets
"""
KINDS: Final = {
    "run": ("run", "check all servers of a file (the default)"),
    "init": ("servers:init_file", "write a fleet file with the servers of a repository"),
    "add": ("servers:add_server", "write one more server into a fleet file"),
    "import": ("servers:import_servers", "take servers over from other files"),
    "export": ("servers:export_servers", "print the servers as a host writes them"),
    "lint": ("lint", "look for faults in what locked servers offer; launches nothing"),
    "history": ("history", "show earlier runs, or one server over time"),
    "merge": ("merge", "put the runs of several machines together"),
    "prune": ("history:prune", "remove old runs from the history"),
    "trust": ("trust", "let a file launch its servers"),
}
"""The kinds of work: the place of each, and what it does."""
_GROUP: Final = CommandGroup("fleet", __name__, _HELP, _EXAMPLES, KINDS, "run")
register = _GROUP.register
complete = _GROUP.complete
