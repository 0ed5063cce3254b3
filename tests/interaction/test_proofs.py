"""Every requirement that binds a server or a client, and its proof.

A proof is a test that names the requirement with `@pytest.mark.requirement`. What has none stands
in the table below with the reason.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from accord.protocol.catalogue import Requirement, catalogue, requirements
from support.links import REVISIONS

TESTS = Path(__file__).parents[1]
# Tests of the rules themselves show that a breach is seen, not that our parties commit none.
NO_PROOF = ("protocol", "check")
CHECKS = ("wire", "server-probe", "client-probe", "http-probe", "process")

UNPROVEN = {
    "tools.errors.invalid-arguments-protocol": (
        "arguments that do not fit are a tool result with isError, so that models can mend them: "
        "practice.tools.validation-failure-as-result, which 2025-11-25 made the rule"
    ),
    "practice.tools.unknown-tool-as-result": (
        "the documents want -32602 for an unknown tool, and they weigh more than practice"
    ),
    "practice.tools.structured-errors": (
        "the text of an error is its author's; JSON in it is possible, prose is easier to read"
    ),
    "practice.tools.health-check": "which tools there are is the author's decision",
    "practice.capabilities.empty-object": (
        "our servers can change their lists, so they say listChanged where others say nothing"
    ),
    "practice.tools.success-omits-is-error": (
        "tools.call.is-error-flag demands the member, so it is always sent"
    ),
    "ping.periodic": (
        "when to ping is the application's decision; it has client.ping(), and no traffic that it "
        "did not ask for"
    ),
    "progress.rate-limited": (
        "the rate is bounded by how fast the client reads (tests/stdio/test_stdio.py, slow "
        "readers); a fixed rate would keep from a fast client what it wants to see"
    ),
    "completion.client.care": "debouncing and caching belong to the program with the input field",
    "jsonrpc.batch.send-optional": "a permission that neither of our parties makes use of",
    **dict.fromkeys(
        (
            "icons.client.png-jpeg",
            "icons.client.svg-webp",
            "icons.consumer.reject-unsafe-scheme",
            "icons.consumer.no-cross-origin-redirect",
            "icons.consumer.resource-limits",
            "icons.consumer.no-credentials",
            "icons.consumer.same-origin",
            "icons.consumer.content-sniffed",
        ),
        "no part of accord fetches or shows icons: the program that does gets their URIs as sent",
    ),
    **dict.fromkeys(
        ("http.headers.intermediary.error-status", "http.param-headers.intermediary-forwards"),
        "binds proxies and gateways, which accord is not",
    ),
    "elicitation.url.third-party-credentials-stay": (
        "what a user types at a page reaches the author's web server, of which accord knows the "
        "address alone; answers to such a question have no content"
    ),
    "sampling.max-tokens-respected": (
        "the limit reaches on_sample, and the application's model keeps to it"
    ),
    "caching.client.poll-with-jitter": (
        "our client never polls: a stale result is fetched when it is asked for"
    ),
    "stdio.crash.restart": (
        "a connection that ended stays closed; the application that wants its server again "
        "connects again, since it alone knows which calls may be repeated"
    ),
    "stdio.crash.relisten": (
        "a new connection is a new client, whose application listens to what it needs; streams "
        "over HTTP are opened again (tests/client/test_listening.py)"
    ),
    "stateless.client.process-not-conversation": (
        "a process lives as long as its client, and how long that is decides the application"
    ),
}


def bound_here() -> dict[str, Requirement]:
    """The rows that a test of ours could decide."""
    return {
        row.id: row
        for revision in REVISIONS
        for check in CHECKS
        for row in requirements(revision=revision, check=check)  # type: ignore[arg-type]
    }


def proofs() -> Mapping[str, list[str]]:
    """The tests that name each requirement."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(TESTS.rglob("test_*.py")):
        place = file.relative_to(TESTS)
        if place.parts[0] not in NO_PROOF:
            for test, id in _named(ast.parse(file.read_text("utf-8"))):
                found[id].append(f"{place}::{test}")
    return found


def _named(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("requirement"):
                    for argument in mark.args:
                        assert isinstance(argument, ast.Constant), ast.unparse(mark)
                        yield node.name, argument.value


def test_every_requirement_is_proven_or_the_reason_is_given() -> None:
    proven = proofs()
    missing = [
        f"{row.id} ({row.party}, {row.level}): {row.text}"
        for row in bound_here().values()
        if row.id not in proven and row.id not in UNPROVEN
    ]
    assert missing == []


def test_reasons_are_given_only_where_there_is_no_proof() -> None:
    proven, bound = proofs(), bound_here()
    assert [id for id in UNPROVEN if id not in bound] == []
    stale = [id for id in UNPROVEN if id in proven]
    assert [(id, proven[id]) for id in stale] == []


def test_tests_name_requirements_that_exist() -> None:
    unknown = {id: tests for id, tests in proofs().items() if id not in catalogue()}
    assert unknown == {}
