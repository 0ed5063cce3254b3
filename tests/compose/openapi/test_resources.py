"""GET operations as resources and resource templates, where the author asks for it."""

import asyncio

import msgspec
import pytest

from accord import Server
from accord.compose import openapi
from accord.errors import InternalError, InvalidParams, ResourceNotFound
from support.api import document, parameter
from support.tables import cases

PATHS = {
    "/pets": {
        "get": {
            "operationId": "listPets",
            "parameters": [parameter("limit", "query", {"type": "integer"})],
        },
        "post": {"operationId": "addPet"},
    },
    "/pets/{pet-id}": {
        "get": {
            "operationId": "getPet",
            "summary": "One pet",
            "tags": ["pet"],
            "parameters": [
                parameter("pet-id", "path", {"type": "integer"}, required=True),
                parameter("fields", "query", {"type": "array", "items": {"type": "string"}}),
            ],
        }
    },
    "/search": {
        "get": {"operationId": "search", "parameters": [parameter("q", "query", required=True)]}
    },
    "/status/{code}": {"get": {"operationId": "status"}},
}


def load(api, choice=True):
    return openapi({**document(), "paths": PATHS}, base_url=api.url, as_resources=choice)


def read(api, uri):
    server = Server("hub")
    server.mount(load(api))
    result = asyncio.run(asyncio.wait_for(server.read_resource(uri), 60))
    (contents,) = result.contents
    return contents


def keys(source, kind):
    return [entry.key for entry in source.entries(kind)]


def test_get_operations_become_resources_and_templates(api):
    source = load(api)
    assert keys(source, "resources") == ["shop://pets"]
    assert keys(source, "resource_templates") == [
        "shop://pets{?limit}",
        "shop://pets/{pet_id}{?fields}",
        "shop://status/{code}",
    ]
    assert keys(source, "tools") == ["addPet", "search"]
    (template,) = [each for each in source.entries("resource_templates") if "pet" in each.tags]
    assert (template.item.name, template.item.title) == ("getPet", "One pet")


@pytest.mark.parametrize(
    ("choice", "count"),
    [(False, 0), (["getPet"], 1), (lambda operation: "pet" in operation.tags, 1), ("listPets", 2)],
)
def test_the_author_chooses_which_operations_become_resources(api, choice, count):
    source = load(api, choice)
    assert len(keys(source, "resources") + keys(source, "resource_templates")) == count


@pytest.mark.parametrize(
    ("uri", "path", "query"),
    [
        ("shop://pets", "/pets", ""),
        ("shop://pets?limit=5", "/pets", "limit=5"),
        ("shop://pets/7", "/pets/7", ""),
        ("shop://pets/7?fields=a,b", "/pets/7", "fields=a&fields=b"),
    ],
)
def test_a_resource_is_read_from_the_api(api, uri, path, query):
    contents = read(api, uri)
    sent = msgspec.json.decode(contents.text)
    assert (sent["path"], sent["query"]) == (path, query)
    assert (contents.uri, contents.mime_type) == (uri, "application/json")


def test_a_resource_that_the_api_does_not_have_is_not_found(api):
    with pytest.raises(ResourceNotFound, match="HTTP 404"):
        read(api, "shop://status/404")


def test_another_error_of_the_api_is_an_error_with_its_status(api):
    with pytest.raises(InternalError, match="HTTP 500"):
        read(api, "shop://status/500")


@pytest.mark.parametrize("uri", ["shop://pets/seven", "shop://status/..%2Fadmin"])
def test_variables_that_do_not_fit_are_refused(api, uri):
    with pytest.raises(InvalidParams):
        read(api, uri)


@cases(
    ("kind", "mime_type"), [("image/png", "image/png"), ("application/zip; v=1", "application/zip")]
)
def test_a_resource_of_bytes_is_read_as_a_blob(api, kind, mime_type):
    api.answer = (b"\0\1", kind, 200)
    server = Server("hub")
    server.mount(openapi(document(path="/answer"), base_url=api.url, as_resources=True))
    (contents,) = asyncio.run(server.read_resource("shop://answer")).contents
    assert (contents.blob, contents.mime_type) == ("AAE=", mime_type)
