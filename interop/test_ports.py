"""Examples of other libraries beside their ports: one client, the same behaviour.

`ports/README.md` says where the originals come from.
"""

import asyncio
import difflib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import pytest
from ports.hosting import PORTS
from sessions import HERE, MODERN, NEWEST_HANDSHAKE, PATIENCE, QUIET, run, surroundings

from accord import Client, connect
from accord.errors import RequestError
from accord.types import ElicitParams

ORIGINALS: Final = HERE.parent / ".venv-interop" / "originals"
# Of these we wrote both sides, in the same words.
OWN: Final = ("parcels", "ledger")
T = TypeVar("T")
Scenario = Callable[[Client], Awaitable[T]]


class Host(NamedTuple):
    """A process that serves all examples of one side."""

    url: str
    stderr: Path


class Hosts(NamedTuple):
    """Both sides."""

    foreign: Host
    ours: Host

    def play(
        self, name: str, scenario: Scenario[T], *, revision: str = NEWEST_HANDSHAKE, **options: Any
    ) -> tuple[T, T]:
        """Play a scenario with the original and with the port; return what came of it."""

        async def visit(host: Host) -> T:
            url = f"{host.url}/{name}/mcp"
            async with connect(url, revision=revision, **options) as client:  # type: ignore[arg-type]
                return await scenario(client)

        return asyncio.run(visit(self.foreign)), asyncio.run(visit(self.ours))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    assert ORIGINALS.is_dir(), "the originals are missing: run make .venv-interop/ready"
    folder = tmp_path_factory.mktemp("ports")
    script = [sys.executable, str(HERE / "ports" / "hosting.py")]
    started = []
    for name, arguments in (("foreign", [str(ORIGINALS)]), ("accord", [])):
        with (folder / name).open("w") as stderr:
            process = subprocess.Popen(
                [*script, name, *arguments],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**surroundings(), **QUIET},
            )
        started.append((process, folder / name))
    found = []
    for process, said in started:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, said.read_text(encoding="utf-8")[-2000:]
        found.append(Host(url, said))
    yield Hosts(*found)
    for process, _ in started:
        process.terminate()
    for process, _ in started:
        process.communicate(timeout=PATIENCE)


# -- lists


def plain(schema: Any, definitions: Any = None) -> Any:
    """Return what a schema says, in one form, without titles, descriptions and references."""
    if isinstance(schema, list):
        return [plain(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    definitions = schema.get("$defs", definitions)
    if "$ref" in schema:
        return plain(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    kept = {key: value for key, value in schema.items() if isinstance(key, str)}
    for key in ("title", "description", "$defs", "x-fastmcp-wrap-result"):
        if isinstance(kept.get(key), str | bool) or key == "$defs":
            kept.pop(key, None)
    if kept.get("additionalProperties") in (False, True):
        del kept["additionalProperties"]
    if kept.get("items") is False:  # which maxItems says as well
        del kept["items"]
    if "const" in kept:
        kept["enum"] = [kept.pop("const")]
    if isinstance(kept.get("required"), list):
        kept["required"] = sorted(kept["required"])
    return {key: plain(value, definitions) for key, value in kept.items()}


def without_formats(schema: Any) -> Any:
    """Leave formats out: accord has `date-time` only for types that demand a time zone."""
    if isinstance(schema, list):
        return [without_formats(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_formats(value) for key, value in schema.items() if key != "format"}


def described(schema: Any) -> set[str]:
    """Return which properties of an object have a description."""
    return {name for name, each in schema.get("properties", {}).items() if "description" in each}


async def tools_of(client: Client) -> dict[str, Any]:
    return {tool.name: tool async for tool in client.tools()}


@pytest.mark.parametrize("name", PORTS)
def test_a_port_has_the_same_tools(hosts: Hosts, name: str) -> None:
    theirs, ours = hosts.play(name, tools_of)
    assert list(ours) == list(theirs)
    for tool in ours.values():
        original = theirs[tool.name]
        assert plain(tool.input_schema) == plain(original.input_schema)
        assert tool.description
        assert original.description
        if name in OWN:
            assert tool.description == original.description
        if tool.output_schema is not None:
            assert plain(tool.output_schema) == without_formats(plain(original.output_schema))
            assert described(tool.output_schema) >= described(original.output_schema)
        else:  # the others wrap text and send it twice
            assert plain(original.output_schema)["properties"] == {"result": {"type": "string"}}


async def other_lists(client: Client) -> list[Any]:
    return [
        [(each.uri, each.name) async for each in client.resources()],
        [(each.uri_template, each.name) async for each in client.resource_templates()],
        [
            (each.name, [(argument.name, argument.required) for argument in each.arguments or ()])
            async for each in client.prompts()
        ],
    ]


@pytest.mark.parametrize("name", ["testing_demo", "ledger"])
def test_a_port_has_the_same_resources_and_prompts(hosts: Hosts, name: str) -> None:
    theirs, ours = hosts.play(name, other_lists)
    assert ours == theirs
    assert all(ours[1:])


# -- results


def calling(*calls: tuple[str, dict[str, Any]]) -> Scenario[list[Any]]:
    async def call(client: Client) -> list[Any]:
        return [(await client.call_tool(name, arguments)) for name, arguments in calls]

    return call


def test_tools_of_testing_demo_give_the_same(hosts: Hosts) -> None:
    theirs, ours = hosts.play(
        "testing_demo",
        calling(
            ("add", {"a": 2, "b": 3}),
            ("add", {"a": "2", "b": 3}),
            ("greet", {"name": "Ann"}),
            ("greet", {"name": "Ann", "greeting": "Hi"}),
            ("async_multiply", {"x": 3.5, "y": 2}),
        ),
    )
    assert [(each.data, each.text) for each in ours] == [(each.data, each.text) for each in theirs]


def test_wrong_arguments_are_refused_by_name(hosts: Hosts) -> None:
    calls = calling(("add", {"a": "x", "b": 3}), ("add", {"a": 1}))
    for results in hosts.play("testing_demo", calls):
        assert [each.is_error for each in results] == [True, True]
        assert re.search(r"\ba\b", results[0].text)
        assert re.search(r"\bb\b", results[1].text)


async def read_and_prompt(client: Client) -> list[Any]:
    texts: list[Any] = []
    for uri in ("demo://info", "demo://greeting/Charlie"):
        (contents,) = (await client.read_resource(uri)).contents
        texts.append((contents.uri, contents.mime_type, contents.text))
    for name, arguments in (
        ("hello", {}),
        ("hello", {"name": "Dave"}),
        ("explain", {"topic": "MCP"}),
        ("explain", {"topic": "MCP", "detail_level": "simple"}),
        ("explain", {"topic": "MCP", "detail_level": "detailed"}),
    ):
        (message,) = (await client.get_prompt(name, arguments)).messages
        texts.append((message.role, message.content.text))
    for asked in (client.read_resource("demo://none"), client.get_prompt("none")):
        with pytest.raises(RequestError, match="none"):
            await asked
    with pytest.raises(RequestError, match="topic"):
        await client.get_prompt("explain")
    return texts


def test_resources_and_prompts_of_testing_demo_give_the_same(hosts: Hosts) -> None:
    theirs, ours = hosts.play("testing_demo", read_and_prompt)
    assert ours == theirs


def test_structured_results_of_every_kind_are_the_same(hosts: Hosts) -> None:
    theirs, ours = hosts.play(
        "weather",
        calling(
            ("get_weather_summary", {"city": "Paris"}),
            ("get_weather_metrics", {"cities": ["Tokyo", "Sydney", "Mumbai"]}),
            ("get_weather_alerts", {"region": "California"}),
            ("get_weather_alerts", {"region": "Peru"}),
            ("get_temperature", {"city": "Berlin"}),
            ("get_temperature", {"city": "Berlin", "unit": "fahrenheit"}),
            ("get_weather_stats", {"city": "Seattle", "days": 30}),
            ("get_weather", {"city": "London"}),
        ),
    )
    *dated, [now, then] = [
        (each.structured, other.structured) for each, other in zip(ours, theirs, strict=True)
    ]
    assert all(mine == other for mine, other in dated)
    assert now.pop("timestamp")[:10] == then.pop("timestamp")[:10]
    assert now == then
    for each, other in zip(ours[:-1], theirs[:-1], strict=True):
        assert json.loads(each.text) == each.data
        # The official SDK sends a block for each item of a list, and none for an empty one.
        blocks = [json.loads(block.text) for block in other.content]
        assert blocks in ([other.data], other.data)


def test_the_lifespan_is_open_during_calls(hosts: Hosts) -> None:
    for found, other, missing in hosts.play(
        "lifespan",
        calling(
            ("lookup", {"key": "alpha"}), ("lookup", {"key": "beta"}), ("lookup", {"key": "x"})
        ),
    ):
        assert (found.data, other.data) == ("one", "two")
        # An exception that is not meant for callers: neither shows its text.
        assert missing.is_error
        assert "lookup" in missing.text
        assert "KeyError" not in missing.text


# -- mounting


def test_the_servers_that_are_mounted_in_the_hub_give_the_same(hosts: Hosts) -> None:
    dim = {"on": True, "brightness": 20, "xy": [0.1, 0.2]}
    video = {"source": "youtube", "source_id": "abcdefghijk", "url": "u", "title": "t"}
    theirs, ours = hosts.play(
        "smart_home",
        calling(
            ("hue_read_lights", {}),
            ("hue_read_lights", {"room": "Bedroom", "details": True}),
            ("hue_read_lights", {"room": "Cellar"}),
            ("hue_read_rooms", {}),
            ("hue_read_scenes", {"room": "r1"}),
            ("hue_set_light", {"target": "Bed", "state": dim}),
            ("hue_set_light", {"target": "Sun", "state": dim}),
            ("hue_read_lights", {"room": "r2"}),
            ("hue_set_room", {"target": "Office", "state": dim}),
            ("hue_set_room", {"target": "Attic", "state": dim}),
            ("hue_activate_scene", {"room": "Office", "scene": "Work", "action": "static"}),
            ("hue_activate_scene", {"room": "Bedroom", "scene": "Read"}),
            ("fire_tv_read_status", {}),  # it is asleep
            ("fire_tv_read_status", {}),
            ("fire_tv_launch_app", {"package_id": "com.example.films"}),
            ("fire_tv_read_status", {}),
            ("fire_tv_launch_app", {"package_id": "com.example.none"}),
            ("fire_tv_press_home", {}),
            ("fire_tv_play_youtube_video", {"video_id": "short"}),
            ("fire_tv_play_media", video),
            ("fire_tv_read_status", {}),
        ),
    )
    assert [each.is_error for each in ours] == [each.is_error for each in theirs]
    assert [each.data for each in ours] == [each.data for each in theirs]
    assert [each.text for each in ours if each.is_error] == [
        each.text for each in theirs if each.is_error
    ]
    assert sum(each.is_error for each in ours) == 7
    for results in hosts.play(
        "smart_home",
        calling(
            ("hue_set_light", {"target": "Bed", "state": {"brightness": 101}}),
            ("hue_set_room", {"target": "Office", "state": {"effect": "candle"}}),
            ("hue_set_room", {"target": "Office", "state": {}}),
        ),
    ):
        assert all(each.is_error for each in results)


# -- middleware


async def spend(client: Client) -> list[Any]:
    """Call until the rate is used up, then twice more."""
    outcomes: list[Any] = [list(await tools_of(client))]
    calls = [
        ("track", {"code": "ab1"}),
        ("open_parcel", {"code": "seal-1"}),
        ("open_parcel", {"code": "ab1"}),
        ("internal_audit", {}),
        *[("track", {"code": "zz"})] * 8,
    ]
    for name, arguments in calls:
        try:
            result = await client.call_tool(name, arguments)
        except RequestError as error:
            outcomes.append((error.code, "rate limit exceeded" in error.message.lower()))
        else:
            outcomes.append((result.is_error, result.text))
    return outcomes


def journal_of(host: Host) -> list[tuple[str, str]]:
    """Return the requests in the log of a server, each with what became of it."""
    said = host.stderr.read_text(encoding="utf-8")
    theirs = r"^parcels \w+ event=request_(\w+) method=(\S+)"
    ours = r"^parcels \w+ (\S+) (begins|is done|failed)"
    words = {"start": "begins", "success": "is done", "error": "failed"}
    found = [(method, words[event]) for event, method in re.findall(theirs, said, re.MULTILINE)]
    return found or re.findall(ours, said, re.MULTILINE)


def test_middleware_changes_refuses_counts_and_logs_alike(hosts: Hosts) -> None:
    before = [len(journal_of(host)) for host in hosts]
    theirs, ours = hosts.play("parcels", spend)
    assert ours == theirs
    assert ours[:5] == [
        ["track", "open_parcel"],
        (False, "AB1 is on its way"),
        (True, "the parcel is sealed"),
        (False, "AB1 holds a lamp"),
        (False, "2 parcels"),
    ]
    assert ours[-1] == (-32000, True)
    journals = [journal_of(host)[count:] for host, count in zip(hosts, before, strict=True)]
    foreign, mine = [
        [row for row in rows if row[0] in ("tools/list", "tools/call")] for rows in journals
    ]
    assert mine == foreign
    assert Counter(mine)["tools/call", "failed"] == 1 + ours.count(ours[-1])


# -- dependencies


async def keep_books(client: Client) -> list[Any]:
    outcomes: list[Any] = []
    for owner, amount in (("anna", 50), ("anna", 70), ("zoe", 1)):
        result = await client.call_tool("pay", {"owner": owner, "amount": amount})
        outcomes.append((result.is_error, result.data, result.text))
    (contents,) = (await client.read_resource("ledger://anna")).contents
    (message,) = (await client.get_prompt("remind", {"owner": "ben"})).messages
    outcomes += [contents.text, message.content.text]
    for asked in (
        client.read_resource("ledger://zoe"),
        client.get_prompt("remind", {"owner": "zoe"}),
    ):
        with pytest.raises(RequestError, match="no account of 'zoe'") as failed:
            await asked
        outcomes.append(failed.value.code)
    return [*outcomes, (await client.call_tool("journal")).data]


def test_dependencies_are_hidden_shared_and_closed_alike(hosts: Hosts) -> None:
    theirs, ours = hosts.play("ledger", keep_books)
    assert ours == theirs
    assert ours[0] == (False, {"paid": 50, "left": 70}, '{"paid":50,"left":70}')
    assert ours[-1] == [
        event
        for owner in ("anna", "anna", "zoe", "anna", "ben", "zoe", "zoe")
        for event in ("open", f"look up {owner}", "close")
    ]


def test_no_caller_can_set_a_dependency(hosts: Hosts) -> None:
    forged = calling(("pay", {"owner": "anna", "amount": 1, "balance": 9999}))
    [theirs], [ours] = hosts.play("ledger", forged)
    assert theirs.is_error
    assert ours.is_error
    assert ours.content[0].text == 'unknown argument "balance" (the tool takes owner, amount)'
    order = {"order_id": "ORD-7001", "reason": "broken"}
    [theirs], [ours] = hosts.play("refund_desk", calling(("refund_order", {**order, "cents": 1})))
    assert ours.is_error, ours
    assert theirs.data["refunded_cents"] == 1500


# -- sessions


def test_each_session_keeps_values_of_its_own(hosts: Hosts) -> None:
    first = calling(
        ("set_value", {"key": "user", "value": "Ada"}),
        ("get_value", {"key": "user"}),
        ("list_session_info", {}),
    )
    second = calling(("get_value", {"key": "user"}), ("list_session_info", {}))
    for begun, other in zip(
        hosts.play("session_state", first), hosts.play("session_state", second), strict=True
    ):
        assert [each.data for each in begun[:2]] == ["Stored 'user' = 'Ada'", "'user' = 'Ada'"]
        assert other[0].data == "Key 'user' not found"
        infos = begun[-1].data, other[-1].data
        assert [info["transport"] for info in infos] == ["streamable-http"] * 2
        assert infos[0]["session_id"] != infos[1]["session_id"]


def test_without_sessions_a_value_is_lost_there_and_refused_here(hosts: Hosts) -> None:
    kept = calling(("set_value", {"key": "k", "value": "v"}), ("get_value", {"key": "k"}))
    theirs, ours = hosts.play("session_state", kept, revision=MODERN)
    assert [each.data for each in theirs] == ["Stored 'k' = 'v'", "Key 'k' not found"]
    assert all(
        each.is_error and "the revision of the client has none" in each.text for each in ours
    )


def test_tools_are_shown_to_one_session_and_hidden_again(hosts: Hosts) -> None:
    changes: asyncio.Queue[None]

    async def activate(client: Client) -> list[Any]:
        nonlocal changes
        changes = asyncio.Queue()
        seen: list[Any] = [list(await tools_of(client))]
        for name in ("activate_finance", "activate_admin", "deactivate_all"):
            seen.append((await client.call_tool(name)).data)
            await asyncio.wait_for(changes.get(), PATIENCE)
            seen.append(list(await tools_of(client)))
            if name == "activate_finance":
                market = await client.call_tool("get_market_data", {"symbol": "ACME"})
                trade = {"symbol": "ACME", "quantity": 3, "side": "buy"}
                seen += [market.data, (await client.call_tool("execute_trade", trade)).data]
        seen.append(await hidden_is_refused(client))
        return seen

    theirs, ours = hosts.play(
        "namespaces", activate, on_tools_changed=lambda: changes.put_nowait(None)
    )
    assert ours == theirs
    assert len(ours[2]) == 6


async def hidden_is_refused(client: Client) -> bool:
    """Whether a hidden tool is refused: as an error by accord, as a result by FastMCP."""
    try:
        result = await client.call_tool("get_market_data", {"symbol": "ACME"})
    except RequestError as error:
        return "get_market_data" in error.message
    return result.is_error and "get_market_data" in result.text


def test_without_sessions_no_tool_is_shown_and_both_say_why(hosts: Hosts) -> None:
    for result, *_ in hosts.play("namespaces", calling(("activate_finance", {})), revision=MODERN):
        assert result.is_error
        assert "session" in result.text


# -- questions


class User:
    """A person who answers the questions of the refund desk."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] | Literal[False] | None = {"full": True}
        self.restock: dict[str, Any] | Literal[False] | None = {"restock": True}
        self.asked: list[Any] = []

    def answer(self, question: ElicitParams) -> dict[str, Any] | Literal[False] | None:
        form = plain(question.requested_schema)
        goods = [sku for sku in ("mug", "tote", "sticker") if sku in question.message]
        self.asked.append((form["properties"], sorted(form["required"]), goods))
        return self.scope if "full" in form["properties"] else self.restock


def refunding(user: User) -> Scenario[list[Any]]:
    async def refund(client: Client) -> list[Any]:
        async def call(order: str) -> Any:
            user.asked.clear()
            arguments = {"order_id": order, "reason": "broken"}
            result = await client.call_tool("refund_order", arguments)
            return (result.is_error, result.data, list(user.asked)), result.text

        user.scope, user.restock = {"full": True}, {"restock": True}
        outcomes = [await call("ORD-7001"), await call("ORD-7002")]
        user.scope = {"full": False, "sku": "canvas-tote"}
        for refusal in (False, None):  # declined, cancelled
            user.restock = refusal
            outcomes.append(await call("ORD-7002"))
        user.scope = {"full": False, "sku": "mystery-hat"}
        outcomes.append(await call("ORD-7002"))
        user.scope = False
        outcomes.append(await call("ORD-7002"))
        user.scope = None
        return [*outcomes, await call("ORD-7002"), await call("ORD-9999")]

    return refund


@pytest.mark.parametrize("revision", [NEWEST_HANDSHAKE, MODERN])
def test_the_refund_desk_asks_and_refunds_alike(hosts: Hosts, revision: str) -> None:
    user = User()
    theirs, ours = hosts.play(
        "refund_desk", refunding(user), revision=revision, on_elicit=user.answer
    )
    assert [outcome for outcome, _ in ours] == [outcome for outcome, _ in theirs]
    cents = [outcome[1] and outcome[1]["refunded_cents"] for outcome, _ in ours]
    assert cents == [1500, 4800, 2400, 2400, None, None, None, None]
    assert [len(outcome[2]) for outcome, _ in ours] == [0, 2, 2, 2, 1, 1, 1, 0]
    for outcomes in (theirs, ours):
        unknown_item, declined, _, unknown_order = [text for _, text in outcomes[4:]]
        assert "order has no item 'mystery-hat'" in unknown_item
        assert "decline" in declined
        assert "unknown order 'ORD-9999'" in unknown_order


# -- the clients and the tests of examples

PROOF: Final = """
import sys, anyio
from importlib import import_module
sys.path.insert(0, sys.argv[1])
anyio.run(import_module(f"stories.{sys.argv[2]}.client").main, sys.argv[3])
"""


@pytest.mark.thorough
def test_the_client_of_an_example_accepts_the_port(hosts: Hosts) -> None:
    examples, url = str(ORIGINALS / "mcp/examples"), f"{hosts.ours.url}/lifespan/mcp"
    status, _, said = run([sys.executable, "-c", PROOF, examples, "lifespan", url])
    assert status == 0, said


@pytest.mark.thorough
def test_the_client_of_the_refund_desk_misses_the_words_of_its_library_alone(hosts: Hosts) -> None:
    examples, url = str(ORIGINALS / "mcp/examples"), f"{hosts.ours.url}/refund_desk/mcp"
    status, _, said = run([sys.executable, "-c", PROOF, examples, "refund_desk", url])
    assert status == 1
    assert "AssertionError: the user declined to answer" in said


SERVER_EDITS: Final = [
    ("from fastmcp import FastMCP", "from accord import Server as FastMCP"),
    ('@mcp.prompt("', '@mcp.prompt(name="'),
]
IMPORT_EDITS: Final = [
    (
        "from fastmcp.client import Client",
        "from accord import Client\nfrom accord.testing import connected",
    ),
    ("async with Client(mcp)", "async with connected(mcp)"),
]
CALL_EDITS: Final = [
    ("await client.list_tools()", "[tool async for tool in client.tools()]"),
    ("await client.list_resources()", "[each async for each in client.resources()]"),
    ("await client.list_prompts()", "[each async for each in client.prompts()]"),
    ("len(result)", "len(result.contents)"),
    ("result[0]", "result.contents[0]"),
    (".inputSchema", ".input_schema"),
]


def edit(source: str, edits: list[tuple[str, str]]) -> str:
    for old, new in edits:
        assert old in source, f"the original has no {old!r}"
        source = source.replace(old, new)
    return source


def changed_lines(old: str, new: str) -> int:
    rows = difflib.ndiff(old.splitlines(), new.splitlines())
    return sum(row.startswith("+ ") for row in rows)


@pytest.mark.parametrize(
    ("edits", "lines", "verdict"),
    [
        pytest.param(IMPORT_EDITS, 3, "6 failed, 12 passed", marks=pytest.mark.thorough),
        (IMPORT_EDITS + CALL_EDITS, 15, "18 passed"),
    ],
    ids=["imports", "imports-and-calls"],
)
def test_the_tests_of_testing_demo_pass_with_few_edits(
    tmp_path: Path, edits: list[tuple[str, str]], lines: int, verdict: str
) -> None:
    folder = ORIGINALS / "fastmcp/examples/testing_demo"
    tests = (folder / "tests/test_server.py").read_text(encoding="utf-8")
    server = (folder / "server.py").read_text(encoding="utf-8")
    ported = edit(tests, edits)
    assert changed_lines(tests, ported) == lines
    assert changed_lines(server, edit(server, SERVER_EDITS)) == 3
    (tmp_path / "test_server.py").write_text(ported, encoding="utf-8")
    (tmp_path / "server.py").write_text(edit(server, SERVER_EDITS), encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-o", "anyio_mode=auto", f"--rootdir={tmp_path}"]
    _, printed, said = run([sys.executable, "-m", "pytest", *options, str(tmp_path)])
    assert verdict in printed, printed + said
