"""Listings: pages, cursors that survive changes, and bytes that are encoded once."""

import base64
import random
import string
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord import Server
from accord.errors import InvalidParams
from accord.server import list_pages as module
from accord.server.entries.entry import EntryKind, FunctionEntry
from accord.server.entries.registry import Registry
from accord.server.list_pages import PAGE_BYTES, PAGE_SIZE, Listing
from accord.types import (
    REVISION_IDS,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    Resource,
    ResourceTemplate,
    Result,
    RevisionId,
    Tool,
    ToolAnnotations,
)
from support.tables import cases

NEWEST = REVISION_IDS[-1]
OLDEST = REVISION_IDS[0]


class Entry(FunctionEntry, frozen=True):
    key: str
    kind: EntryKind = "tools"
    function: Any = None
    signature: Any = None
    item: Any = None


def entry_of(key: str, item: Any = None) -> Entry:
    return Entry(key=key, item=item or Tool(key, {"type": "object"}))


def filled(count: int, **settings: Any) -> tuple[Registry, Listing]:
    registry: Registry = Registry("tool")
    for at in range(count):
        registry.add(entry_of(f"tool{at}"))
    return registry, Listing(registry, ListToolsResult, **settings)


def read(
    listing: Listing, cursor: str | None = None, revision: RevisionId = OLDEST, **how: Any
) -> tuple[list[str], str | None]:
    page = msgspec.json.decode(listing.page(revision, cursor, **how))
    return [item["name"] for item in page["tools"]], page.get("nextCursor")


def walk(listing: Listing, **how: Any) -> list[str]:
    names, cursor = read(listing, **how)
    while cursor is not None:
        more, cursor = read(listing, cursor, **how)
        names += more
    return names


@pytest.mark.requirement("pagination.operation.tools-list", "pagination.end.no-next-cursor")
@cases(
    ("count", "sizes"),
    [(0, [0]), (1, [1]), (3, [3]), (4, [3, 1]), (6, [3, 3]), (7, [3, 3, 1])],
)
def test_a_list_is_sent_in_pages_and_the_last_has_no_cursor(count: int, sizes: list[int]) -> None:
    _, listing = filled(count, page_size=3)
    seen, cursor = [], None
    for size in sizes:
        names, cursor = read(listing, cursor)
        assert len(names) == size
        seen += names
    assert cursor is None
    assert seen == [f"tool{at}" for at in range(count)]


@pytest.mark.requirement(
    "pagination.operation.resources-list",
    "pagination.operation.resources-templates-list",
    "pagination.operation.prompts-list",
    "resources.list.array",
    "resources.templates.array",
    "prompts.list.array",
)
@pytest.mark.parametrize(
    ("result_type", "member", "make"),
    [
        (ListResourcesResult, "resources", lambda at: Resource(uri=f"x://{at}", name=f"{at}")),
        (
            ListResourceTemplatesResult,
            "resourceTemplates",
            lambda at: ResourceTemplate(uri_template=f"x://{at}/{{a}}", name=f"{at}"),
        ),
        (ListPromptsResult, "prompts", lambda at: Prompt(name=f"{at}")),
    ],
    ids=["resources", "templates", "prompts"],
)
def test_every_kind_of_list_has_pages(
    result_type: Any, member: str, make: Callable[[int], Any]
) -> None:
    registry: Registry = Registry("thing")
    for at in range(3):
        registry.add(entry_of(f"{at}", make(at)))
    listing = Listing(registry, result_type, page_size=2)
    first = msgspec.json.decode(listing.page(OLDEST, None))
    second = msgspec.json.decode(listing.page(OLDEST, first["nextCursor"]))
    assert [item["name"] for item in first[member] + second[member]] == ["0", "1", "2"]
    assert "nextCursor" not in second


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_a_list_used_as_a_decorator_names_the_decorator(kind: str) -> None:
    server: Any = Server("desk")
    with pytest.raises(AttributeError, match=f"did you mean @server.{kind}\\?"):
        getattr(server, f"{kind}s")


def test_usual_lists_are_one_page() -> None:
    _, listing = filled(PAGE_SIZE)
    assert len(read(listing)[0]) == PAGE_SIZE
    assert read(listing)[1] is None


def test_a_page_stays_well_below_the_message_limit_of_peers() -> None:
    registry: Registry = Registry("tool")
    for at in range(6):
        schema = {"type": "object", "description": "x" * (PAGE_BYTES // 2 - 1000)}
        registry.add(entry_of(f"tool{at}", Tool(f"tool{at}", schema)))
    listing = Listing(registry, ListToolsResult)
    assert len(read(listing)[0]) == 2
    assert len(walk(listing)) == 6


def test_an_entry_too_large_for_a_page_is_a_page() -> None:
    registry: Registry = Registry("tool")
    for at in range(2):
        schema = {"type": "object", "description": "x" * (PAGE_BYTES + 1)}
        registry.add(entry_of(f"tool{at}", Tool(f"tool{at}", schema)))
    assert walk(Listing(registry, ListToolsResult)) == ["tool0", "tool1"]


def test_only_results_of_list_methods_are_taken() -> None:
    with pytest.raises(TypeError, match="Result is not the result of a list method"):
        Listing(Registry("tool"), Result)  # type: ignore[type-var,arg-type]  # type: ignore[arg-type]


# -- cursors


@pytest.mark.requirement("pagination.cursor.stable")
@given(
    size=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    changes=st.lists(st.sampled_from(["add", "remove", "disable", "enable", "replace"])),
)
def test_changes_between_pages_neither_skip_nor_repeat_the_rest(
    size: int, seed: int, changes: list[str]
) -> None:
    chance = random.Random(seed)
    registry, listing = filled(12, page_size=size)
    stable = {f"tool{at}" for at in range(0, 12, 2)}
    fickle = [f"tool{at}" for at in range(1, 12, 2)]
    seen: list[str] = []
    cursor: str | None = None
    pending = list(changes)
    while True:
        names, cursor = read(listing, cursor)
        seen += names
        if cursor is None:
            break
        for change in pending[:2]:
            apply(registry, change, fickle, chance)
        del pending[:2]
    assert [name for name in seen if name in stable] == sorted(stable, key=lambda n: int(n[4:]))


def apply(registry: Registry, change: str, names: list[str], chance: random.Random) -> None:
    name = chance.choice(names)
    if change == "add" or name not in registry:
        registry.add(entry_of(f"new{registry.generation}"))
    elif change == "replace":
        registry.add(entry_of(name), replace=True)
    else:
        getattr(registry, change)(name)


@pytest.mark.requirement("pagination.cursor.stable")
def test_a_cursor_survives_the_removal_of_the_entry_it_stands_at() -> None:
    registry, listing = filled(4, page_size=2)
    _, cursor = read(listing)
    registry.remove("tool1")
    assert read(listing, cursor) == (["tool2", "tool3"], None)


@pytest.mark.requirement("pagination.cursor.stable")
def test_a_cursor_is_the_same_whenever_its_page_is_read() -> None:
    registry, listing = filled(4, page_size=2)
    before = read(listing)[1]
    registry.add(entry_of("more"))
    assert read(listing)[1] == before


def test_a_cursor_after_the_last_entry_gives_an_empty_last_page() -> None:
    registry, listing = filled(4, page_size=2)
    _, cursor = read(listing)
    registry.remove("tool2")
    registry.remove("tool3")
    assert read(listing, cursor) == ([], None)


def test_processes_with_the_same_keys_take_the_cursors_of_each_other() -> None:
    listings = [filled(4, page_size=2)[1] for _ in range(3)]
    (_, first), (_, second), (_, third) = map(read, listings)
    assert len({first, second, third}) == 3
    for listing, keys in zip(listings, ([b"a" * 32], [b"b" * 32, b"a" * 32], [b"c"]), strict=True):
        listing.share_keys(keys)
    one, other, stranger = listings
    _, cursor = read(one)
    assert cursor not in (first, second)
    assert read(other, cursor) == (["tool2", "tool3"], None)
    for listing, refused in ((stranger, cursor), (one, first), (one, read(other)[1])):
        with pytest.raises(InvalidParams, match="cursor"):
            read(listing, refused)


def damaged(cursor: str) -> list[str]:
    number = (7).to_bytes(8)
    return [
        "",
        "0",
        "1",
        "next",
        "tool1",
        "null",
        "é",
        "😀" * 5,
        "A" * 100_000,
        cursor[:-1],
        cursor + "A",
        cursor + "=",
        cursor + " ",
        cursor[:-1] + ("A" if cursor[-1] != "A" else "B"),
        cursor.swapcase(),
        base64.urlsafe_b64encode(number + b"\0" * 13).decode(),
        base64.urlsafe_b64encode(number).decode(),
    ]


@pytest.mark.requirement("pagination.bad-cursor-32602")
@cases("at", range(17))
def test_a_cursor_that_was_not_given_out_is_refused(at: int) -> None:
    _, listing = filled(4, page_size=2)
    cursor = read(listing)[1]
    assert cursor is not None
    wrong = damaged(cursor)[at]
    with pytest.raises(InvalidParams, match=r"cursor .* is invalid") as caught:
        listing.page(OLDEST, wrong)
    assert caught.value.code == -32602
    assert len(caught.value.message) < 200


def test_every_cursor_can_be_written_in_one_way_only() -> None:
    _, listing = filled(4, page_size=2)
    cursor = read(listing)[1]
    assert cursor is not None
    letters = string.ascii_letters + string.digits + "-_"
    for letter in letters.replace(cursor[-1], ""):
        with pytest.raises(InvalidParams):
            listing.page(OLDEST, cursor[:-1] + letter)


@pytest.mark.requirement("pagination.bad-cursor-32602")
def test_a_cursor_of_another_list_is_refused() -> None:
    registry, listing = filled(4, page_size=2)
    prompts = Listing(registry, ListPromptsResult, page_size=2)
    cursor = read(listing)[1]
    with pytest.raises(InvalidParams):
        prompts.page(OLDEST, cursor)


def test_a_cursor_of_another_process_is_refused() -> None:
    cursor = read(filled(4, page_size=2)[1])[1]
    with pytest.raises(InvalidParams):
        read(filled(4, page_size=2)[1], cursor)


# -- bytes


@pytest.mark.requirement("tools.list.deterministic-order")
def test_the_same_bytes_are_given_until_something_changes() -> None:
    registry, listing = filled(5, page_size=2)
    first = listing.page(OLDEST, None)
    _, cursor = read(listing)
    second = listing.page(OLDEST, cursor)
    assert listing.page(OLDEST, None) is first
    assert listing.page(OLDEST, cursor) is second
    registry.disable("tool0")
    assert listing.page(OLDEST, None) is not first
    registry.enable("tool0")
    assert listing.page(OLDEST, None) == first


def test_cached_pages_are_dropped_at_the_first_visible_change() -> None:
    registry, listing = filled(2)
    assert walk(listing) == ["tool0", "tool1"]
    registry.add(entry_of("more"))
    assert walk(listing) == ["tool0", "tool1", "more"]
    registry.remove("tool0")
    assert walk(listing) == ["tool1", "more"]


def test_old_cursors_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PAGES", 4)
    _, listing = filled(20, page_size=1)
    assert len(walk(listing)) == 20
    assert len(listing._cache[1]) <= 5


def test_each_revision_gets_its_own_shape() -> None:
    registry: Registry = Registry("tool")
    tool = Tool(
        "add",
        {"type": "object"},
        title="Add",
        output_schema={"type": "object"},
        annotations=ToolAnnotations(read_only_hint=True),
        meta={"a/b": 1},
    )
    registry.add(entry_of("add", tool))
    listing = Listing(registry, ListToolsResult)
    pages = {id: msgspec.json.decode(listing.page(id, None)) for id in REVISION_IDS}
    shapes = {id: sorted(page["tools"][0]) for id, page in pages.items()}
    plain = ["inputSchema", "name"]
    newer = ["_meta", "annotations", "inputSchema", "name", "outputSchema", "title"]
    assert list(shapes.values()) == [plain, sorted([*plain, "annotations"]), newer, newer, newer]
    for id in REVISION_IDS[:-1]:
        assert sorted(pages[id]) == ["tools"]
    assert sorted(pages[NEWEST]) == ["cacheScope", "resultType", "tools", "ttlMs"]


@pytest.mark.requirement(
    "caching.hints.tools-list",
    "caching.ttl.non-negative",
    "caching.scope.value",
    "caching.scope.same-on-all-pages",
    "result.type.present",
)
@pytest.mark.parametrize(
    ("ttl", "scope", "hints"),
    [(0.0, None, (0, "private")), (5.0, "public", (5000, "public"))],
    ids=["default", "chosen"],
)
def test_every_page_has_the_cache_hints(ttl: float, scope: Any, hints: tuple[int, str]) -> None:
    _, listing = filled(3, page_size=2, ttl=ttl)
    cursor: str | None = None
    for _ in range(2):
        page = msgspec.json.decode(listing.page(NEWEST, cursor, cache_scope=scope))
        assert (page["ttlMs"], page["cacheScope"]) == hints
        assert page["resultType"] == "complete"
        cursor = page.get("nextCursor")


def test_an_entry_that_a_revision_cannot_express_is_left_out_there() -> None:
    registry, listing = filled(1)
    registry.add(entry_of("odd", Tool("odd", {"$ref": "#/$defs/x"})))
    registry.add(entry_of("last"))
    assert read(listing, revision=OLDEST)[0] == ["tool0", "last"]
    assert read(listing, revision=NEWEST)[0] == ["tool0", "odd", "last"]


# -- some callers see less


@pytest.mark.requirement("caching.server.public-may-be-shared")
def test_a_filter_hides_entries_and_makes_the_page_private() -> None:
    _, listing = filled(6, page_size=2)

    def visible(entry: Entry) -> bool:
        return entry.key in {"tool1", "tool3", "tool4"}

    assert walk(listing, visible=visible) == ["tool1", "tool3", "tool4"]
    assert len(read(listing, visible=visible)[0]) == 2
    page = msgspec.json.decode(listing.page(NEWEST, None, visible=visible, cache_scope="public"))
    assert page["cacheScope"] == "private"


def test_filtered_and_whole_pages_are_not_mixed_up() -> None:
    _, listing = filled(3)
    whole = listing.page(OLDEST, None)
    assert read(listing, visible=lambda entry: False) == ([], None)
    assert listing.page(OLDEST, None) is whole
    assert read(listing, visible=lambda entry: entry.key == "tool2") == (["tool2"], None)


def test_a_page_that_ends_before_hidden_entries_only_is_the_last() -> None:
    _, listing = filled(6, page_size=2)
    assert read(listing, visible=lambda entry: entry.key in {"tool0", "tool1"})[1] is None
