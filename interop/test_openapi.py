"""OpenAPI documents of real APIs: each operation is a tool that can be called, or is named."""

import asyncio
import re
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
from aiohttp import web

from accord import Server
from accord.compose import openapi
from accord_tools.arguments.samples import sample

DOCUMENTS = Path(__file__).parents[1] / ".venv-interop" / "documents"
# How many operations there are at least; the next release of a document may have others.
LEAST = {
    "github.json": 800,
    "kubernetes.json": 800,
    "stripe.json": 400,
    "jira.json": 450,
    "digitalocean.json": 250,
    "box.json": 230,
    "twilio.json": 170,
    "slack.json": 150,
    "asana.json": 150,
    "spotify.json": 80,
    "figma.yaml": 40,
    "openai.json": 20,
    "galaxy.json": 8,
    "petstore-3.0.json": 15,
    "petstore-3.1.json": 15,
    "train-travel.json": 5,
}
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
META = jsonschema_rs.validator_for({"$ref": "https://json-schema.org/draft/2020-12/schema"})
# Enough to meet each kind of body and parameter, and few enough to be quick.
CALLED = 25


@pytest.fixture(scope="module")
def sources():
    return {}


def load(sources, name):
    """Load a document once for all tests."""
    if name not in sources:
        sources[name] = openapi(DOCUMENTS / name, base_url="http://127.0.0.1:1")
    return sources[name]


@pytest.mark.parametrize("name", LEAST)
def test_every_operation_is_a_tool_with_valid_schemas_or_is_named(sources, name):
    source = load(sources, name)
    tools = source.entries("tools")
    assert len(tools) >= LEAST[name]
    assert [each for each in source.skipped if not each.reason] == []
    if name.endswith(".json"):
        paths = msgspec.json.decode((DOCUMENTS / name).read_bytes())["paths"]
        count = sum(method in METHODS for item in paths.values() for method in item)
        assert len(tools) + len(source.skipped) == count
    names = [entry.key for entry in tools]
    assert len(set(names)) == len(names)
    assert [each for each in names if not re.fullmatch("[A-Za-z0-9_-]{1,64}", each)] == []
    for entry in tools:
        schemas = [entry.item.input_schema, entry.item.output_schema]
        for schema in schemas if schemas[1] is not None else schemas[:1]:
            assert schema["type"] == "object"
            assert META.is_valid(schema), entry.key
            jsonschema_rs.validator_for(schema)
        arguments = entry.item.input_schema["properties"]
        assert [each for each in arguments if not re.fullmatch("[A-Za-z0-9_.-]{1,64}", each)] == []


@pytest.mark.parametrize("name", LEAST)
def test_operations_of_every_document_can_be_called(name):
    methods = asyncio.run(call_some(name))
    assert len(methods) > 4
    assert [pair for pair in methods if pair[0] != pair[1]] == []


async def call_some(name):
    """Call some operations over HTTP; return the methods that were meant and those that arrived."""

    async def answer(request):
        await request.read()
        return web.json_response({"method": request.method})

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    source = openapi(DOCUMENTS / name, base_url=f"http://127.0.0.1:{runner.addresses[0][1]}")
    server = Server("real")
    server.mount(source)
    tools = source.entries("tools")
    pairs = []
    async with server.run_lifespan():
        for entry in tools[:: max(1, len(tools) // CALLED)]:
            schema = entry.item.input_schema
            arguments = sample_arguments(schema)
            if not jsonschema_rs.validator_for(schema).is_valid(arguments):
                continue  # no sample fits its patterns
            result = await server.call_tool(entry.key, arguments)
            text = result.content[0].text
            meant = entry.operation.method
            assert not result.is_error, f"{entry.key}: {text}"
            pairs.append((meant, meant if meant == "HEAD" else msgspec.json.decode(text)["method"]))
    await runner.cleanup()
    return pairs


def sample_arguments(schema):
    """Return arguments that fit a schema; of patterns, it knows those of identifiers of Twilio."""
    arguments = sample(schema)
    for argument in arguments:
        pattern = schema["properties"][argument].get("pattern", "")
        found = re.fullmatch(r"\^(\w+)\[0-9a-fA-F\]\{32\}\$", pattern)
        if found:
            arguments[argument] = found[1] + "0" * 32
    return arguments
