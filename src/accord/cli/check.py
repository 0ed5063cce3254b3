"""`accord check`: check servers, clients and recordings against the protocol."""

from accord.cli import check_client, check_server, check_trace
from accord.cli.options import Commands

_ABOUT = """\
Check a server, a client or a recording against every requirement of the protocol.

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed, 2 the check could
not run.
"""
_EXAMPLES = """\
examples:
  accord check server server.py
  accord check server https://example.com/mcp --bearer "$TOKEN"
  accord check client -- python client.py {url}
  accord check trace session.jsonl
"""


def register(commands: Commands) -> None:
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
