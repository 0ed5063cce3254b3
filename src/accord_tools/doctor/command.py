"""`accord doctor`: find out, step by step, why a client cannot use a server."""

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from accord.cli.connection import advise_in_options, auth_of, auth_options
from accord.cli.options import (
    ENV,
    TARGET,
    TEXT_OR_JSON,
    Commands,
    UsageError,
    add_command,
    is_json,
)
from accord.cli.target import command_of, demand_target, suggest_url
from accord.cli.terminal import painter, say, say_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord_tools.diagnosis.steps import DiagnosisStep, StepList
    from accord_tools.doctor.launch import LaunchDiagnosis
    from accord_tools.doctor.url import Diagnosis
    from accord_tools.hosts.definition import HostEntry


_HELP = """\
usage: accord doctor [options] URL
       accord doctor [options] TARGET
       accord doctor [options] --config FILE NAME
       accord doctor [options] -- COMMAND ...

Connect to a server step by step and print every step. At a URL: DNS, TCP, TLS, HTTP, the challenge,
the metadata of the resource and of its authorization server, registration, PKCE, token, initialize,
list. For a command, a Python file or module, or an entry in the configuration of a host: command
and PATH, environment, start, stdout, stderr, exit, initialize, list, and a call of a tool that only
reads. Each step is ok, a warning or failed, with the request, the answer and what to change.

Exit code: 0 no step failed, 1 a step failed, 2 the server could not be reached or launched.

examples:
  accord doctor https://example.com/mcp
  accord doctor https://example.com/mcp --oauth
  accord doctor https://example.com/mcp --oauth --client-id desk --redirect-uri http://localhost:8400
  accord doctor http://127.0.0.1:8000/mcp --format json | jq '.steps[] | .name, .verdict'
  accord doctor --env API_KEY=... -- npx some-server --flag
  accord doctor --config ~/.cursor/mcp.json files
"""


_OPTIONS = f"""\
{TARGET}{TEXT_OR_JSON}
--json
--timeout S  seconds a step may take (default: 10)
--config FILE  the configuration of a host; TARGET is the name of a server in it
{ENV}{auth_options()}"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "doctor", run, _HELP, _OPTIONS, format="text", timeout=10.0)


def run(options: argparse.Namespace) -> int:
    """Take the steps and print them."""
    import asyncio

    from accord_tools.diagnosis.steps import format_step

    as_json = options.json or is_json(options)
    paint = painter()
    diagnosis = _new_diagnosis(
        options,
        (lambda _step: None) if as_json else lambda step: say(format_step(step, paint)),
    )
    # The steps say what the client would log.
    logger = logging.getLogger("accord.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        asyncio.run(diagnosis.run())
    finally:
        logger.setLevel(before)
    if as_json:
        _print_json(diagnosis)
    if diagnosis.failures & diagnosis.unreachable:
        return 2
    return 1 if diagnosis.failures else 0


def _new_diagnosis(
    options: argparse.Namespace, report: "Callable[[DiagnosisStep], object]"
) -> "Diagnosis | LaunchDiagnosis":
    entry = _find_entry(options)
    if not entry.url:
        from accord_tools.doctor.launch import LaunchDiagnosis

        return LaunchDiagnosis(entry, seconds=options.timeout, report=report)
    _demand_url(entry.url)
    from accord_tools.doctor.url import Diagnosis

    return Diagnosis(
        entry.url,
        auth=auth_of(options),
        headers={**entry.headers, **dict(options.header)},
        seconds=options.timeout,
        report=report,
        advise=advise_in_options,
    )


def _find_entry(options: argparse.Namespace) -> "HostEntry":
    """Return the server that the command line names."""
    from accord_tools.hosts.definition import HostEntry
    from accord_tools.hosts.sources.configuration_file import read_file_entry

    env = dict(options.env)
    if options.config:
        if options.command or options.rest:
            raise UsageError("with --config the TARGET is the name of one server in that file")
        entry = read_file_entry(Path(options.config), options.target)
        return replace(entry, env={**entry.env, **env})
    if not options.command and (url := suggest_url(options.target)):
        raise UsageError(f"{options.target} is not a URL; did you mean {url}?")
    if not options.command and "://" in options.target:
        return HostEntry(name=options.target, transport="http", url=options.target)
    demand_target(options, "doctor")
    command = command_of(options)
    return HostEntry(name=options.target or command[0], command=tuple(command), env=env)


def _demand_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url[:200]} is not the URL of a server, http(s)://host/path")
    try:
        _ = parts.port
    except ValueError:
        raise UsageError(f"{url[:200]} has an invalid port") from None


def _print_json(diagnosis: "StepList") -> None:
    verdicts = [each.verdict for each in diagnosis.steps]
    worst = next((each for each in ("failed", "warning") if each in verdicts), "ok")
    say_json({"target": diagnosis.target, "verdict": worst, "steps": diagnosis.steps})
