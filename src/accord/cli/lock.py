"""`accord lock`: write what a server shows into a file that `accord verify` holds it to."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.cli.connection import add_options, talk
from accord.cli.options import output_file
from accord.cli.target import add_target, demand_target
from accord.cli.terminal import complain, note, say
from accord.errors import MethodNotFound

if TYPE_CHECKING:
    from accord.client import Client

__all__ = ["LOCK", "register"]

LOCK: Final = Path("accord.lock")
_ABOUT: Final = """\
Write what a server shows into a file: tools with their schemas, descriptions and annotations,
resources, templates, prompts, instructions. The file is sorted JSON for version control; accord
verify fails when the server shows anything else.

TARGET is a URL, a Python file or module with a Server, or a command line after --.

A list that the server answers with an error is left out, and the error is locked in its place.

Exit code: 0 written, 1 written without a list that failed for now (with another error than -32601,
method not found), 2 it could not be done.
"""
_EXAMPLES: Final = """\
examples:
  accord lock server.py
  accord lock server.py --output surface.lock
  accord lock --output - -- npx some-server
"""


def register(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "lock",
        help="write what a server shows into a file",
        description=_ABOUT,
        epilog=_EXAMPLES,
    )
    add_target(parser)
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=output_file,
        default=LOCK,
        help=f"where to write it; - prints it (default: {LOCK})",
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Lock what a server shows."""
    from accord.check.contract.lock_file import format_lock
    from accord.testing import surface_of

    demand_target(options, "lock")

    async def work(client: "Client") -> int:
        surface = await surface_of(client)
        text = format_lock(surface, client.revision)
        failed: dict[str, int] = surface.get("failed", {})
        for method, code in failed.items():
            complain(f"{method} failed with error {code}: what it lists is not locked")
        # A method that is missing stays missing; any other error may be gone the next time.
        code = 0 if set(failed.values()) <= {MethodNotFound.default_code} else 1
        if str(options.output) == "-":
            say(text)
            return code
        try:
            options.output.write_text(text, "utf-8")
        except OSError as error:
            complain(f"{options.output}: {error.strerror or error}")
            return 2
        note(f"{options.output} is written; keep it under version control")
        return code

    return talk(options, options.target, options.rest, work)
