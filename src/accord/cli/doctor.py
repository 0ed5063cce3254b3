"""`accord doctor`: find out, step by step, why a client cannot use a server."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from accord.cli.connection import auth_of, auth_options
from accord.cli.options import TEXT_OR_JSON, Commands, UsageError, add_command, is_json
from accord.cli.terminal import escape_controls, painter, say, say_json

if TYPE_CHECKING:
    from accord.cli.doctor_steps import Diagnosis, DoctorStep


_HELP = """\
usage: accord doctor [options] URL

Connect to a server step by step and print every step: DNS, TCP, TLS, HTTP, the challenge, the
metadata of the resource and of its authorization server, registration, PKCE, token, initialize,
list. Each step is ok, a warning or failed, with the request, the answer and what to change.

Exit code: 0 no step failed, 1 a step failed, 2 the server could not be reached.

examples:
  accord doctor https://example.com/mcp
  accord doctor https://example.com/mcp --oauth
  accord doctor https://example.com/mcp --oauth --client-id desk --redirect-uri http://localhost:8400
  accord doctor http://127.0.0.1:8000/mcp --format json | jq '.steps[] | .name, .verdict'
"""
_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}
_NAME_WIDTH = len("authorization server")


_OPTIONS = f"""\
url URL      the URL of the server
{TEXT_OR_JSON}
--json
--timeout S  seconds a step may take (default: 10)
{auth_options()}"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "doctor", run, _HELP, _OPTIONS, format="text", timeout=10.0)


def run(options: argparse.Namespace) -> int:
    """Take the steps and print them."""
    import asyncio

    as_json = options.json or is_json(options)
    parts = urlsplit(options.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(_describe_wrong_target(options.url[:200]))
    try:
        _ = parts.port
    except ValueError:
        raise UsageError(f"{options.url[:200]} has an invalid port") from None
    from accord.cli.doctor_steps import Diagnosis

    paint = painter()
    diagnosis = Diagnosis(
        options.url,
        auth=auth_of(options),
        headers=dict(options.header),
        seconds=options.timeout,
        report=(lambda _step: None) if as_json else lambda step: say(_format_step(step, paint)),
    )
    asyncio.run(diagnosis.run())
    if as_json:
        _print_json(diagnosis)
    if diagnosis.failures & {"dns", "tcp", "tls"}:
        return 2
    return 1 if diagnosis.failures else 0


def _describe_wrong_target(target: str) -> str:
    """Return the error message, with the commands that look at launched servers."""
    from accord.cli.target import suggest_url

    if url := suggest_url(target):
        return f"{target} is not a URL; did you mean {url}?"
    if "://" in target:
        return f"{target} is not the URL of a server, http(s)://host/path"
    return (
        f"doctor examines servers at a URL, and {target} is not a URL; for a server that is "
        f"launched, accord list {target} shows whether it starts and what it prints to stderr, "
        f"accord run {target} --print-config what a host needs to launch it, and "
        f"accord check server {target} what it does wrong"
    )


def _format_step(step: "DoctorStep", paint: Callable[[str, str], str]) -> str:
    verdict = paint(_STYLES[step.verdict], f"{step.verdict:8}")
    lines = [f"{verdict} {step.name:{_NAME_WIDTH}}  {escape_controls(step.came)}"]
    if step.verdict in ("warning", "failed"):
        lines.append(f"{'':9}asked: {escape_controls(step.asked)}")
    if step.change:
        lines.append(f"{'':9}change: {escape_controls(step.change)}")
    return "\n".join(lines) + "\n"


def _print_json(diagnosis: "Diagnosis") -> None:
    verdicts = [each.verdict for each in diagnosis.steps]
    worst = next((each for each in ("failed", "warning") if each in verdicts), "ok")
    say_json({"target": diagnosis.url, "verdict": worst, "steps": diagnosis.steps})
