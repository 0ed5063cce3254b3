"""The headers of requests that stand on their own."""

import json

import pytest

from accord.http.rules.request_headers import request_headers
from accord.protocol.mirroring import MirroredArgument
from support.tables import cases

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def headers(method, mirrored=(), **params):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
    return request_headers(json.dumps(message).encode(), lambda tool: mirrored)


@pytest.mark.requirement("http.version-header.matches-meta", "http.headers.mcp-method")
def test_revision_and_method_are_repeated():
    assert headers("tools/list") == {
        "Mcp-Method": "tools/list",
        "MCP-Protocol-Version": "2026-07-28",
    }


@pytest.mark.requirement("http.headers.mcp-name", "tasks-ext.http.mcp-name")
@cases(
    ("method", "member"),
    [
        ("tools/call", "name"),
        ("prompts/get", "name"),
        ("resources/read", "uri"),
        ("tasks/get", "taskId"),
        ("tasks/update", "taskId"),
        ("tasks/cancel", "taskId"),
    ],
)
def test_the_name_in_a_request_is_repeated(method, member):
    assert headers(method, **{member: "a:b"})["Mcp-Name"] == "a:b"


@pytest.mark.requirement("http.headers.mcp-name.encoded-when-unsafe")
def test_a_name_that_headers_cannot_carry_is_encoded():
    assert headers("tools/call", name="två")["Mcp-Name"] == "=?base64?dHbDpQ==?="


def test_names_of_other_methods_are_not_repeated():
    assert "Mcp-Name" not in headers("completion/complete", name="x", uri="a:b")


@pytest.mark.requirement(
    "http.param-headers.client-support", "http.param-headers.omitted-without-value"
)
def test_arguments_are_repeated_where_the_tool_asks_for_it():
    mirrored = (MirroredArgument("Mcp-Param-A", ("a",)), MirroredArgument("Mcp-Param-B", ("b",)))
    found = headers("tools/call", mirrored, name="x", arguments={"a": 7, "b": None})
    assert found["Mcp-Param-A"] == "7"
    assert "Mcp-Param-B" not in found
    assert "Mcp-Param-A" not in headers("tools/call", mirrored, name="x")
    assert "Mcp-Param-A" not in headers("prompts/get", mirrored, name="x", arguments={"a": "7"})


def test_a_message_without_params_has_its_method_alone():
    assert request_headers(b'{"method":"notifications/any"}', lambda tool: ()) == {
        "Mcp-Method": "notifications/any"
    }
