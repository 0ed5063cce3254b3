"""Requests of a server to the client: invalid answers and declared modes."""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from accord import Context, Server
from accord_tools.check.scenarios.server.asked_questions import _is_used_alike, _refutable_members
from accord_tools.check.server_check import ServerPlan, check_server
from support.check_targets import check_target

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
        subject = check_target(name="asking", server=server, settling=0.05, at_once=32)
        async with asyncio.timeout(170):
            return await check_server(subject, ServerPlan(revisions=[revision], only=only))

    return {result.id: result for result in asyncio.run(run()).results}


@pytest.mark.parametrize(("kind", "verdict"), [(str, "not-exercised"), (Seat, "pass")])
@pytest.mark.parametrize("revision", ["2025-06-18", NEW])
def test_a_tool_that_repeats_valid_form_content_does_not_fail(
    kind: Any, verdict: str, revision: str
) -> None:
    results = checked(asking(kind), VALIDATED, revision=revision)
    assert results[VALIDATED].verdict == verdict


def test_a_client_without_forms_gets_no_form() -> None:
    results = checked(asking(str), MODES)
    assert results[MODES].verdict == "pass"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "boolean"},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "maxLength": 3},
        {"type": "array", "items": {"type": "string"}},
    ],
)
def test_a_member_that_refuses_texts_is_answered_wrongly(schema: Any) -> None:
    assert _refutable_members({"type": "object", "properties": {"value": schema}}) == ["value"]


@pytest.mark.parametrize(
    "schema",
    [{}, {"type": "string"}, {"type": ["string", "integer"]}, {"type": "no such type"}],
)
def test_a_member_that_takes_any_text_is_never_answered_wrongly(schema: Any) -> None:
    assert _refutable_members({"type": "object", "properties": {"value": schema}}) == []


@pytest.mark.parametrize(
    ("said", "is_used"),
    [
        ("row accord-check-wrong, aisle", True),
        ("not a row: accord-check-wrong", False),
        ("accord-check-wrong is not a row", False),
        ("there is no row like this", False),
    ],
)
def test_an_invalid_answer_counts_as_used_only_in_the_words_for_a_valid_one(
    said: str, *, is_used: bool
) -> None:
    assert _is_used_alike("row 3, aisle", "3", said) is is_used


# -- untried requirements


def test_a_requirement_without_a_probe_is_not_blamed_on_the_server() -> None:
    results = checked(asking(str), "elicitation.required-error", "schema.dialect", "tasks")
    for id in (
        "elicitation.required-error.used",
        "schema.dialect.supports-2020-12",
        "schema.dialect.default-2020-12",
    ):
        assert results[id].verdict == "not-exercised"
        assert "gave no occasion" not in results[id].message, id


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
        subject = check_target(name="tasks", carrier=carrier, settling=0.05, at_once=32)
        async with asyncio.timeout(170):
            return await check_server(subject, ServerPlan(revisions=[NEW], only=["tasks"]))

    results = [each for each in asyncio.run(run()).results if each.verdict == "not-exercised"]
    blamed = [each.id for each in results if "gave no occasion" in each.message]
    assert blamed == []
