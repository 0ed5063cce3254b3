"""Requests of a server to the client: invalid answers and declared modes."""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from accord import Context, Server
from accord.check.probing.target import ServerTarget
from accord.check.scenarios.server.questions import _wrong_content
from accord.check.server_check import ServerPlan, check_server

NEW = "2025-11-25"
VALIDATED = "elicitation.answers.validated"
MODES = "elicitation.mode.supported-only"


@dataclass
class Seat:
    row: int
    side: Literal["aisle", "window"] = "window"


def asking(kind: Any) -> Server:
    server = Server("asking")

    @server.tool(annotations={"readOnlyHint": True})
    async def get_answer(ctx: Context) -> str:
        """Repeat the answer of the user."""
        return str(await ctx.elicit("Well?", kind))

    return server


def checked(server: Server, *only: str, revision: str = NEW) -> dict[str, Any]:
    async def run() -> Any:
        subject = ServerTarget(name="asking", server=server, settling=0.05, at_once=32)
        async with asyncio.timeout(170):
            return await check_server(subject, ServerPlan(revisions=[revision], only=only))

    return {result.id: result for result in asyncio.run(run()).results}


@pytest.mark.parametrize("kind", [str, Seat])
@pytest.mark.parametrize("revision", ["2025-06-18", NEW])
def test_a_tool_that_repeats_valid_form_content_does_not_fail(kind: Any, revision: str) -> None:
    results = checked(asking(kind), VALIDATED, revision=revision)
    assert results[VALIDATED].verdict == "pass"


def test_a_client_without_forms_gets_no_form() -> None:
    results = checked(asking(str), MODES)
    assert results[MODES].verdict == "pass"


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ({"type": "string"}, 918273645),
        ({"type": "integer"}, "accord-check-wrong"),
        ({"type": "string", "enum": ["a", "b"]}, "accord-check-wrong"),
        ({"type": "boolean"}, "accord-check-wrong"),
    ],
)
def test_an_invalid_answer_breaks_the_schema_of_the_form(schema: Any, wrong: Any) -> None:
    form = {"type": "object", "properties": {"value": schema}}
    question = {"method": "elicitation/create", "params": {"requestedSchema": form}}
    assert _wrong_content(question) == {"value": wrong}


@pytest.mark.parametrize("schema", [{}, {"type": ["string", "integer"]}, {"type": "no such type"}])
def test_a_form_without_known_constraints_gets_no_invalid_answer(schema: Any) -> None:
    form = {"type": "object", "properties": {"value": schema}}
    question = {"method": "elicitation/create", "params": {"requestedSchema": form}}
    assert _wrong_content(question) is None


# -- untried requirements


def test_a_requirement_without_a_probe_is_not_blamed_on_the_server() -> None:
    results = checked(asking(str), "elicitation.required-error", "schema.dialect", "tasks")
    for id in (
        "elicitation.required-error.used",
        "schema.dialect.supports-2020-12",
        "schema.dialect.default-2020-12",
    ):
        assert results[id].verdict == "not-exercised"
        assert results[id].message == "accord has no probe for this yet", id


def test_a_server_that_declares_tasks_is_not_blamed_for_requests_that_were_never_sent() -> None:
    from check.mutants.everything import server
    from check.mutants.foundation import Between

    def carrier() -> Between:
        wire = Between(server, {})

        def from_server(message: Any, request: Any) -> Any:
            if request.get("method") == "initialize" and "result" in message:
                message["result"]["capabilities"]["tasks"] = {"list": {}, "cancel": {}}
            return message

        wire.from_server = from_server
        return wire

    async def run() -> Any:
        subject = ServerTarget(name="tasks", carrier=carrier, settling=0.05, at_once=32)
        async with asyncio.timeout(170):
            return await check_server(subject, ServerPlan(revisions=[NEW], only=["tasks"]))

    results = [each for each in asyncio.run(run()).results if each.verdict == "not-exercised"]
    blamed = [each.id for each in results if "gave no occasion" in each.message]
    assert blamed == []
    assert len([each for each in results if "has no probe" in each.message]) > 20
