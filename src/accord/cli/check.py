"""`accord check`: hold recordings, servers and clients to the rules of the protocol."""

from typing import TYPE_CHECKING, Any

from accord.cli import check_client, check_server, check_trace

if TYPE_CHECKING:
    import argparse


_ABOUT = """\
Check that the rules of the protocol are kept, clause by clause.

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed, 2 it could not be
done.
"""
_EXAMPLES = """\
examples:
  accord check server server.py
  accord check server https://example.com/mcp --bearer "$TOKEN"
  accord check client -- python client.py {url}
  accord check trace session.jsonl
"""


def register(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "check",
        help="check servers, clients and recordings",
        description=_ABOUT,
        epilog=_EXAMPLES,
    )
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    check_server.register(kinds)
    check_client.register(kinds)
    check_trace.register(kinds)
