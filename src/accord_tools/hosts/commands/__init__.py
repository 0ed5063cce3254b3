"""`accord hosts`: the hosts on this machine, their servers, checks, repairs, and changes undone."""

from typing import Final

from accord.cli.commands import CommandGroup

_HELP: Final = """\
Show the hosts on this machine (applications that launch servers, such as Cursor or Codex), their
configurations and the servers in them. Check that each server works there, repair entries that are
wrong, copy servers from one host to others, and undo changes.

accord hosts alone is short for accord hosts list.

Exit code: 0 nothing is wrong, 1 something is, 2 the command could not run.
"""
_EXAMPLES: Final = """\
examples:
  accord hosts
  accord hosts check
  accord hosts check tickets --host cursor
  accord hosts repair --dry-run
  accord hosts sync claude-desktop cursor
  accord hosts undo
"""
KINDS: Final = {
    "list": ("listing", "show hosts, their files and servers (the default)"),
    "check": ("check", "launch each server the way its host does"),
    "repair": ("repair", "mend entries that are wrong, each shown as a diff"),
    "sync": ("sync", "copy servers from one host to others"),
    "undo": ("changes", "take back changes of hosts' files"),
}
"""The kinds of work: the module of each, and what it does."""
_GROUP: Final = CommandGroup("hosts", __name__, _HELP, _EXAMPLES, KINDS, "list")
register = _GROUP.register
complete = _GROUP.complete
