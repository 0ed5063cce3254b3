"""`accord doctor`: find out, step by step, why a client cannot use a server."""

import argparse
import logging
from typing import TYPE_CHECKING

from accord.cli.connection import advise_in_options, auth_of, target_options
from accord.cli.options import (
    TEXT_OR_JSON,
    Commands,
    add_command,
    given_filter,
    is_json,
)
from accord.cli.target import demand_target, read_target
from accord.cli.terminal import painter, say, say_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord_tools.diagnosis.steps import DiagnosisStep, StepList
    from accord_tools.doctor.launch import LaunchDiagnosis
    from accord_tools.doctor.url import Diagnosis


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
{TEXT_OR_JSON}
--json
{target_options(timeout="seconds a step may take (default: 10)", revision=False)}"""


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
    diagnosis.hide = given_filter(options).hide_any
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
    demand_target(options, "doctor")
    # A placeholder that is not filled in is a finding.
    spec = read_target(options, keeps_placeholders=True)
    if not spec.url:
        from accord_tools.doctor.launch import LaunchDiagnosis

        return LaunchDiagnosis(spec, seconds=options.timeout, report=report)
    from accord_tools.doctor.url import Diagnosis

    return Diagnosis(
        spec.url,
        auth=auth_of(options),
        headers=dict(spec.headers),
        seconds=options.timeout,
        report=report,
        advise=advise_in_options,
    )


def _print_json(diagnosis: "StepList") -> None:
    verdicts = [each.verdict for each in diagnosis.steps]
    worst = next((each for each in ("failed", "warning") if each in verdicts), "ok")
    say_json(
        {"target": diagnosis.hide(diagnosis.target), "verdict": worst, "steps": diagnosis.steps}
    )
