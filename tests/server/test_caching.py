"""How long clients of 2026-07-28 may keep results, and which of them caches may share."""

from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from accord import Principal, Server
from accord.auth import Protected, StaticTokens
from accord.errors import RegistrationError
from accord.server import CacheHints
from accord.testing import run_in_virtual_time
from accord.types import ReadResourceResult, ResourceContents
from support.listening import SERVER_INFO, ListeningClient
from support.running import in_virtual_time
from support.tables import cases

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
    "server/discover": "discover",
}


def make(**settings: Any) -> Server[Any]:
    server: Server[Any] = Server("desk", version="3", **settings)
    server.add_tool(lambda: "x", name="look", description="Look.")
    server.add_prompt(lambda: "x", name="greet")
    server.add_resource("note://a", lambda: "a")
    server.add_resource("book://{title}", lambda title: title)
    return server


def ask(server: Any, method: str, **params: Any) -> Any:
    """Return the result of one request of 2026-07-28."""

    async def main() -> Any:
        async with ListeningClient(server) as raw:
            return await raw.result(1, method, **params)

    return run_in_virtual_time(main())


def hints(server: Any, method: str, **params: Any) -> tuple[int, str]:
    result = ask(server, method, **params)
    return result["ttlMs"], result["cacheScope"]


@pytest.mark.requirement(
    "caching.hints.discover",
    "caching.hints.tools-list",
    "caching.hints.prompts-list",
    "caching.hints.resources-list",
    "caching.hints.resource-templates-list",
    "caching.ttl.non-negative",
    "caching.scope.value",
)
@cases("method", LISTS)
def test_lists_say_how_long_they_may_be_kept(method: str) -> None:
    assert hints(make(), method) == (0, "public")
    chosen = CacheHints(**{LISTS[method]: 1.5}, scope="private")
    assert hints(make(cache=chosen), method) == (1500, "private")
    other = next(name for name in LISTS.values() if name != LISTS[method])
    assert hints(make(cache=CacheHints(**{other: 60})), method) == (0, "public")


@pytest.mark.requirement("caching.server.public-may-be-shared")
@cases("method", LISTS)
def test_lists_are_private_where_callers_may_differ(method: str) -> None:
    async def layer(ctx: Any, proceed: Any) -> Any:
        return await proceed()

    protection = Protected(StaticTokens({"a-token": ["read"]}))
    named = make().acting_as(Principal("ann"))
    guarded = [
        make(policy=lambda principal, entry: True),
        make(middleware=[layer]),
        make(auth=protection),
        make(principal=Principal("ann")),
        named,
    ]
    assert [hints(each, method)[1] for each in guarded] == ["private"] * 5
    stated = make(auth=protection, cache=CacheHints(scope="public"))
    assert hints(stated, method) == (0, "public")


@pytest.mark.requirement("caching.server.public-may-be-shared", "caching.scope.same-on-all-pages")
def test_a_list_that_depends_on_scopes_is_private_on_every_page() -> None:
    server = make(page_size=1, cache=CacheHints(tools=60, scope="public"))
    server.add_tool(lambda: "x", name="open", description="Open.", scopes=["vault"])
    ann = server.acting_as(Principal("ann", scopes=frozenset({"vault"})))
    first = ask(ann, "tools/list")
    second = ask(ann, "tools/list", cursor=first["nextCursor"])
    assert [tool["name"] for page in (first, second) for tool in page["tools"]] == ["look", "open"]
    for page in (first, second):
        assert (page["ttlMs"], page["cacheScope"]) == (60_000, "private")
    assert hints(server, "prompts/list") == (0, "public")


@pytest.mark.requirement("caching.hints.resources-read")
def test_contents_say_how_long_they_may_be_kept() -> None:
    assert hints(make(), "resources/read", uri="note://a") == (0, "private")
    server = make(cache=CacheHints(reads=30))
    server.add_resource("note://day", lambda: "x", ttl=86_400, cache_scope="public")
    server.add_resource("page://{number}", lambda number: number, ttl=0.5)

    def read_quickly() -> ReadResourceResult:
        contents = [ResourceContents("note://quick", text="x")]
        return ReadResourceResult(contents, ttl_ms=7, cache_scope="private")

    server.add_resource("note://quick", read_quickly, ttl=60, cache_scope="public")
    expected = {
        "note://a": (30_000, "private"),
        "note://day": (86_400_000, "public"),
        "page://3": (500, "private"),
        "note://quick": (7, "private"),
    }
    for uri, found in expected.items():
        assert hints(server, "resources/read", uri=uri) == found


@pytest.mark.requirement("caching.server.public-may-be-shared")
def test_public_contents_are_those_that_every_caller_may_read() -> None:
    public = CacheHints(scope="public")
    assert hints(make(cache=public), "resources/read", uri="note://a") == (0, "public")
    server = make(cache=public)
    server.add_resource("safe://gold", lambda: "x", scopes="vault")
    ann = server.acting_as(Principal("ann", scopes=frozenset({"vault"})))
    assert hints(ann, "resources/read", uri="safe://gold") == (0, "private")
    judged = make(cache=public, policy=lambda principal, entry: True)
    assert hints(judged, "resources/read", uri="note://a") == (0, "private")


def test_files_say_how_long_they_may_be_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    server = make()
    server.add_file(tmp_path / "a.txt", "note://file", ttl=2)
    server.add_directory(tmp_path, "files://{+path}", ttl=3, cache_scope="public")
    assert hints(server, "resources/read", uri="note://file") == (2_000, "private")
    assert hints(server, "resources/read", uri="files://a.txt") == (3_000, "public")
    (tmp_path / "b.txt").write_text("b")
    assert hints(server, "resources/read", uri="files://b.txt") == (3_000, "public")


@in_virtual_time
async def test_clients_of_older_revisions_get_no_hints() -> None:
    server = make(cache=CacheHints(tools=60, reads=60, scope="public"))
    async with ListeningClient(server) as raw:
        await raw.open("2025-11-25")
        tools = await raw.ask(1, "tools/list")
        note = await raw.ask(2, "resources/read", {"uri": "note://a"})
        assert sorted(tools["result"]) == ["tools"]
        assert sorted(note["result"]) == ["contents"]


@pytest.mark.requirement("meta.result.server-info", "discover.result.server-info")
@cases("method", LISTS)
def test_every_list_names_the_server(method: str) -> None:
    result = ask(make(), method)
    assert result["_meta"] == {SERVER_INFO: {"name": "desk", "version": "3"}}
    assert result["resultType"] == "complete"


@cases("ttl", [-1, nan, inf, True, "60", None])
def test_a_time_that_is_not_a_number_of_seconds_is_refused(ttl: Any) -> None:
    with pytest.raises(RegistrationError, match=r"tools is .*, expected seconds, at least 0"):
        CacheHints(tools=ttl)


def test_hints_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(RegistrationError, match="scope is 'shared', expected 'public' or"):
        CacheHints(scope="shared")  # type: ignore[arg-type]
    with pytest.raises(RegistrationError, match="cache is 60, expected CacheHints"):
        Server("desk", cache=60)  # type: ignore[arg-type]
    server = make()
    with pytest.raises(RegistrationError, match="ttl is -1"):
        server.add_resource("note://b", lambda: "x", ttl=-1)
    with pytest.raises(RegistrationError, match="cache_scope"):
        server.add_resource("note://b", lambda: "x", cache_scope="all")  # type: ignore[arg-type]
    with pytest.raises(RegistrationError, match="needs scopes, so that its cache_scope"):
        server.add_resource("note://b", lambda: "x", cache_scope="public", scopes=["vault"])


def test_a_result_with_a_negative_time_fails(caplog: Any) -> None:
    server = make()
    server.add_resource("note://b", lambda: ReadResourceResult([], ttl_ms=-1))

    async def main() -> None:
        async with ListeningClient(server) as raw:
            error = await raw.error(1, "resources/read", uri="note://b")
            assert error["code"] == -32603

    run_in_virtual_time(main())
    assert "ttl_ms is -1, expected at least 0" in caplog.text
