"""Whatever stands for an entry answers as the entry itself does, whichever kind it is of."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord import Context, Server, ToolError
from accord.client import Client
from accord.compose import folder, openapi, proxy
from accord.errors import RequestError
from accord.testing import connected
from accord.types import EmbeddedResource, ResourceContents, ResourceLink
from support.api import Api, document, parameter, running_api
from support.waiting import in_loop, until

ERAS = ["2025-06-18", "2026-07-28"]
CITIES = ["Oslo", "Ottawa", "Paris"]


def make() -> Server[Any]:
    """Return a server with entries of all kinds; each says by which name it was asked."""
    server: Server[Any] = Server("desk")

    @server.tool
    async def add(ctx: Context, a: int, b: int) -> dict[str, Any]:
        """Add two numbers."""
        await ctx.progress(1, 2, message="adding")
        return {"sum": a + b, "asked": ctx.params.name}

    @server.tool
    async def report() -> Any:
        """Link to resources."""
        return [
            ResourceLink(uri="note://today", name="today"),
            ResourceLink(uri="https://example.com/", name="elsewhere"),
            EmbeddedResource(ResourceContents("note://by/Ann", text="hers")),
        ]

    @server.tool
    async def fail() -> str:
        """Fail."""
        raise ToolError("closed", data={"until": "Monday"})

    @server.prompt
    async def greet(ctx: Context, city: str) -> str:
        """Greet a city."""
        return f"{ctx.params.name} {city}"

    @server.prompt
    async def refuse() -> str:
        """Refuse."""
        raise RequestError("the desk is on fire", code=-31050, data={"desk": 1})

    @server.resource("note://today")
    async def today(ctx: Context) -> str:
        return f"buy milk, {ctx.params.uri}"

    @server.resource("note://torn")
    async def torn() -> str:
        raise RequestError("the note is torn", code=-31051)

    @server.resource("note://by/{author}")
    async def note(ctx: Context, author: str) -> str:
        if author == "Nobody":
            raise RequestError("no author", code=-31052)
        return f"{author}, {ctx.params.uri}"

    server.add_completion("greet", "city", CITIES)
    server.add_completion("note://by/{author}", "author", ["Ann", "Bob"])
    return server


# -- what may stand between a client and the entries

PLUGIN = "import sys\n\nserver = sys.modules[{module!r}].PLUGGED[-1]\n"
PLUGGED: list[Server[Any]] = []


def as_server(made: Any) -> Server[Any]:
    if isinstance(made, Server):
        return made
    server: Server[Any] = Server("around")
    server.mount(made)
    return server


def in_mount(made: Any, names: dict[str, str], path: Path) -> Any:
    return made


def in_prefix(made: Any, names: dict[str, str], path: Path) -> Any:
    return made.prefix("x")


def in_view(made: Any, names: dict[str, str], path: Path) -> Any:
    described = dict.fromkeys(names.values(), "in other words")
    return made.rename(names).describe(described).without("missing*")


def in_proxy(made: Any, names: dict[str, str], path: Path) -> Any:
    return proxy(as_server(made))


def in_plugin(made: Any, names: dict[str, str], path: Path) -> Any:
    PLUGGED.append(as_server(made))
    (path / "desk.py").write_text(PLUGIN.format(module=__name__))
    return folder(path, watch=False)


def in_all(made: Any, names: dict[str, str], path: Path) -> Any:
    plugged = in_plugin(in_view(made, names, path), names, path)
    return in_proxy(plugged, names, path).prefix("x")


def prefixed(name: str) -> str:
    scheme, found, rest = name.partition("://")
    return f"{scheme}://x/{rest}" if found else f"x_{name}"


WRAPPERS = {
    "mount": in_mount,
    "prefix": in_prefix,
    "view": in_view,
    "proxy": in_proxy,
    "plugin": in_plugin,
    "all": in_all,
}


def outward(wrapper: str, names: dict[str, str]) -> Callable[[str], str]:
    """Return the name or URI that clients have to use, by the own one."""

    def name_of(own: str) -> str:
        name = names.get(own, own) if wrapper in ("view", "all") else own
        return prefixed(name) if wrapper in ("prefix", "all") else name

    return name_of


def wrap(wrapper: str, made: Any, names: dict[str, str], path: Path) -> Server[Any]:
    hub: Server[Any] = Server("hub")
    hub.mount(WRAPPERS[wrapper](made, names, path))
    return hub


class Observed:
    """What a client is answered, by its own names of entries put back to those of the server.

    Args:
        client: asks.
        name_of: the name that the client knows, by the own one.
    """

    def __init__(self, client: Client, name_of: Callable[[str], str] = str) -> None:
        self.seen: dict[str, Any] = {}
        self._client = client
        self._name_of = name_of
        self._own: dict[str, str] = {}

    def name(self, own: str) -> str:
        known = self._name_of(own)
        self._own[known] = own
        return known

    async def note(self, what: str, answer: Any) -> None:
        """Keep an answer or an error."""
        try:
            found = msgspec.to_builtins(await answer)
        except RequestError as error:
            found = [type(error).__name__, error.code, str(error), error.data]
        if isinstance(found, dict):
            found.pop("_meta", None)  # where the server introduces itself
        text = json.dumps(found)
        for known, own in self._own.items():
            for quote in "\"'":
                text = text.replace(f"{quote}{known}{quote}", f"{quote}{own}{quote}")
        self.seen[what] = json.loads(text)

    async def call(self, what: str, tool: str, **arguments: Any) -> None:
        steps: list[Any] = []
        name = self.name(tool)

        def note(step: Any) -> None:
            steps.append((step.progress, step.total, step.message))

        await self.note(what, self._client.call_tool(name, arguments, on_progress=note))
        self.seen[f"{what}, progress"] = steps

    async def prompt(self, what: str, prompt: str, **arguments: str) -> None:
        await self.note(what, self._client.get_prompt(self.name(prompt), arguments))

    async def read(self, what: str, uri: str) -> None:
        await self.note(what, self._client.read_resource(self.name(uri)))

    async def complete(self, what: str, of: str, argument: str, typed: str) -> None:
        await self.note(what, self._client.complete(self.name(of), argument, typed))


def find_differences(observed: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return the answers that are not as expected, each with the one that was."""
    return {
        what: (answer, expected[what])
        for what, answer in observed.items()
        if answer != expected[what]
    }


async def observe_desk(client: Client, name_of: Callable[[str], str] = str) -> dict[str, Any]:
    observed = Observed(client, name_of)
    for linked in ("note://today", "note://by/Ann"):
        observed.name(linked)
    await observed.call("tool", "add", a=1, b=2)
    await observed.call("links", "report")
    await observed.call("error of a tool", "fail")
    await observed.call("arguments of a tool", "add", a="one")
    await observed.call("unknown tool", "missing")
    await observed.prompt("prompt", "greet", city="Oslo")
    await observed.prompt("error of a prompt", "refuse")
    await observed.prompt("arguments of a prompt", "greet")
    await observed.prompt("unknown prompt", "missing")
    await observed.read("resource", "note://today")
    await observed.read("error of a resource", "note://torn")
    await observed.read("unknown resource", "other://missing")
    await observed.read("template", "note://by/Ann")
    await observed.read("template, encoded", "note://by/A%20b")
    await observed.read("error of a template", "note://by/Nobody")
    await observed.complete("completion of a prompt", "greet", "city", "O")
    await observed.complete("completion of a template", "note://by/{author}", "author", "B")
    await observed.complete("unknown argument", "greet", "town", "O")
    return observed.seen


RENAMED = {"add": "plus", "greet": "welcome", "note://today": "note://now"}


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
@in_loop
async def test_entries_of_all_kinds_answer_through_a_wrapper_as_they_do_by_themselves(
    wrapper: str, revision: Any, tmp_path: Path
) -> None:
    async with connected(make(), revision=revision) as client:
        expected = await observe_desk(client)
    assert expected["tool"]["structuredContent"] == {"sum": 3, "asked": "add"}
    assert expected["tool, progress"] == [(1, 2, "adding")]
    hub = wrap(wrapper, make(), RENAMED, tmp_path)
    async with connected(hub, revision=revision) as client:
        observed = await observe_desk(client, outward(wrapper, RENAMED))
    assert find_differences(observed, expected) == {}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@in_loop
async def test_a_client_hears_of_changes_of_all_kinds_through_a_wrapper(
    wrapper: str, tmp_path: Path
) -> None:
    made, heard = make(), set[str]()
    name_of = outward(wrapper, RENAMED)
    updated: list[str] = []
    hub = wrap(wrapper, made, RENAMED, tmp_path)
    async with connected(
        hub,
        revision="2025-06-18",
        on_tools_changed=lambda: heard.add("tools"),
        on_prompts_changed=lambda: heard.add("prompts"),
        on_resources_changed=lambda: heard.add("resources"),
        on_resource_updated=updated.append,
    ) as client:
        await client.subscribe(name_of("note://today"))

        def is_heard() -> bool:
            made.resource_updated("note://today")  # again: a proxy subscribes a moment later
            return set(updated) == {name_of("note://today")}

        await until(is_heard)

        async def later() -> str:
            return "later"

        made.add_tool(later)
        made.add_prompt(later)
        made.add_resource("note://later", later)
        made.add_resource("late://{name}", lambda name: name)
        await until(lambda: heard == {"tools", "prompts", "resources"})

        async def listed() -> set[str]:
            found = {each.name for each in (await client.list_tools()).tools}
            found |= {f"prompt {each.name}" for each in (await client.list_prompts()).prompts}
            found |= {each.uri for each in (await client.list_resources()).resources}
            templates = (await client.list_resource_templates()).resource_templates
            return found | {each.uri_template for each in templates}

        new = {name_of("later"), f"prompt {name_of('later')}", name_of("note://later")}
        new.add(name_of("late://{name}"))
        async with asyncio.timeout(30):
            while not new <= await listed():  # a proxy reads its lists anew
                pass
        assert (await client.call_tool(name_of("later"))).content[0].text == "later"  # type: ignore[union-attr]


@in_loop
async def test_a_prefix_that_is_percent_encoded_is_taken_out_of_a_uri() -> None:
    hub: Server[Any] = Server("hub")
    hub.mount(make(), prefix="x")
    (contents,) = (await hub.read_resource("note://%78/by/Ann")).contents
    assert (contents.text, contents.uri) == ("Ann, note://by/Ann", "note://x/by/Ann")


# -- of an API

PATHS = {
    "/pets": {
        "get": {"operationId": "listPets"},
        "post": {
            "operationId": "addPet",
            "responses": {"200": {"content": {"application/json": {"schema": {"type": "object"}}}}},
        },
    },
    "/pets/{id}": {
        "get": {
            "operationId": "getPet",
            "parameters": [parameter("id", "path", {"type": "integer"}, required=True)],
        }
    },
    "/status/{code}": {"get": {"operationId": "status"}, "post": {"operationId": "fail"}},
}
PETS = {"addPet": "add_pet", "shop://pets": "shop://animals"}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with running_api() as running:
        yield running


def load(url: str) -> Any:
    return openapi({**document(), "paths": PATHS}, base_url=url, as_resources=True)


async def observe_api(client: Client, name_of: Callable[[str], str] = str) -> dict[str, Any]:
    observed = Observed(client, name_of)
    await observed.call("tool", "addPet")
    await observed.call("error of a tool", "fail", code="500")
    await observed.call("arguments of a tool", "fail")
    await observed.read("resource", "shop://pets")
    await observed.read("template", "shop://pets/7")
    await observed.read("arguments of a template", "shop://pets/seven")
    await observed.read("not there", "shop://status/404")
    await observed.read("error of a template", "shop://status/500")
    return observed.seen


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
@in_loop
async def test_entries_of_an_api_answer_through_a_wrapper_as_they_do_in_a_mount(
    wrapper: str, revision: Any, tmp_path: Path, api: Api
) -> None:
    async with connected(as_server(load(api.url)), revision=revision) as client:
        expected = await observe_api(client)
    assert expected["tool"]["structuredContent"]["path"] == "/pets"
    hub = wrap(wrapper, load(api.url), PETS, tmp_path)
    async with connected(hub, revision=revision) as client:
        observed = await observe_api(client, outward(wrapper, PETS))
    assert find_differences(observed, expected) == {}
