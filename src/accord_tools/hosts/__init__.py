"""Hosts: applications that launch servers, their configurations, and careful changes of these."""

from typing import Final

from accord.cli.commands import HOSTS, Command

_COMMANDS: Final = "accord_tools.hosts.commands"
ADD_COMMAND: Final = Command(
    f"{_COMMANDS}.add", "put a server into the configurations of hosts", HOSTS, takes_command=True
)
REMOVE_COMMAND: Final = Command(
    f"{_COMMANDS}.remove", "take a server out of the configurations of hosts", HOSTS
)
HOSTS_COMMAND: Final = Command(
    _COMMANDS,
    "show, check and repair the servers of hosts; undo changes",
    HOSTS,
    has_kinds=True,
)
BUNDLE_COMMAND: Final = Command(
    f"{_COMMANDS}.bundle",
    "pack a server for hosts that install bundles (.mcpb), or show one",
    HOSTS,
)
EXEC_COMMAND: Final = Command(
    f"{_COMMANDS}.exec",
    "launch a command in a folder, with variables of a file",
    HOSTS,
    takes_command=True,
)
