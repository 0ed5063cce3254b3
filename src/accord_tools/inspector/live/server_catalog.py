"""The lists of a server, fetched page by page after connecting and again when they change."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from accord.errors import AccordError, RemoteProtocolError
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject
from accord_tools.inspector.actions import READ, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.forms.model import build_form, prompt_form, template_form
from accord_tools.inspector.live.capture import capture
from accord_tools.inspector.live.live_connection import LiveConnection
from accord_tools.inspector.live.task_list import TaskList
from accord_tools.inspector.live.texts import encode_text, show_text

if TYPE_CHECKING:
    from accord.client import Client
    from accord_tools.inspector.session import InspectedSession


CatalogKind: TypeAlias = Literal["tools", "resources", "templates", "prompts"]


class ListFacts(NamedTuple):
    """How a list is asked for.

    Attributes:
        member: of the result, with the entries.
        fetch: the method of the client.
        capability: that the server declares.
        name: the member that tells entries apart.
    """

    member: str
    fetch: str
    capability: str
    name: str


LISTS: Final[dict[CatalogKind, ListFacts]] = {
    "tools": ListFacts("tools", "list_tools", "tools", "name"),
    "resources": ListFacts("resources", "list_resources", "resources", "uri"),
    "templates": ListFacts(
        "resourceTemplates", "list_resource_templates", "resources", "uriTemplate"
    ),
    "prompts": ListFacts("prompts", "list_prompts", "prompts", "name"),
}

_DESCRIPTION_SHOWN: Final = 300
# Models count about four characters of JSON as one token.
_TOKEN: Final = 4
_HINTS: Final = {
    "readOnlyHint": ("read-only", "changes things"),
    "destructiveHint": ("destructive", "only adds"),
    "idempotentHint": ("idempotent", ""),
    "openWorldHint": ("open world", "closed world"),
}


class InspectedEntry:
    """One entry of a list, as it came."""

    __slots__ = ("_searched", "description", "mime", "name", "raw", "size", "title")

    def __init__(self, raw: bytes, name_member: str) -> None:
        self.raw = raw
        found = self.value
        self.name = _text(found.get(name_member)) if isinstance(found, dict) else ""
        members: JsonObject = found if isinstance(found, dict) else {}
        annotations = members.get("annotations")
        hinted = annotations.get("title") if isinstance(annotations, dict) else None
        named = members.get("name") if name_member != "name" else None
        self.title = _text(members.get("title") or hinted or named)
        self.description = _text(members.get("description"))
        self.mime = _text(members.get("mimeType"))
        size = members.get("size")
        self.size = size if isinstance(size, int) else None
        self._searched: str | None = None

    @property
    def value(self) -> Any:
        """The entry as plain JSON; None if Python cannot hold it."""
        try:
            return msgspec.json.decode(self.raw)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None

    @property
    def hints(self) -> list[str]:
        """What the annotations of a tool say, in words."""
        found = annotations_of(self.value)
        words = [
            _HINTS[name][0 if said else 1]
            for name, said in found.items()
            if name in _HINTS and isinstance(said, bool)
        ]
        support = task_support(self.value)
        if support != "forbidden":
            words.append(f"task {support}")
        return [each for each in words if each]

    @property
    def tokens(self) -> int:
        """About how many tokens a model reads for it."""
        return -(-len(self.raw) // _TOKEN)

    def matches(self, text: str) -> bool:
        """Whether it has a text, in lower case, in its name, title or description."""
        if self._searched is None:
            self._searched = f"{self.name}\n{self.title}\n{self.description}".lower()
        return text in self._searched

    def snapshot(self) -> JsonObject:
        """Return the row of the list."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description[:_DESCRIPTION_SHOWN],
            "hints": self.hints,
            "mime": self.mime,
            "size": self.size,
        }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def annotations_of(value: object) -> JsonObject:
    """Return the annotations of an entry; empty if it has none."""
    found = value.get("annotations") if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def task_support(value: object) -> str:
    """Return whether a tool may run as a task: forbidden, optional or required."""
    execution = value.get("execution") if isinstance(value, dict) else None
    support = execution.get("taskSupport") if isinstance(execution, dict) else None
    return support if support in ("optional", "required") else "forbidden"


def reason_to_confirm(value: object) -> str:
    """Return why a person should agree to a call first; empty for a tool that only reads."""
    hints = annotations_of(value)
    is_read_only, is_destructive = hints.get("readOnlyHint"), hints.get("destructiveHint")
    if is_read_only is True:
        return ""
    if is_destructive is False:
        return "this tool says that it changes things, and deletes none"
    if is_destructive is True or is_read_only is False:
        return "this tool says that it may change or delete things"
    return "this tool does not say whether it changes things"


_CHANGES_SHOWN: Final = 20


def describe_changes(
    before: dict[str, InspectedEntry], after: dict[str, InspectedEntry]
) -> list[str]:
    """Return what is new in a list, in words."""
    lines = [f"added {name}" for name in after if name not in before]
    lines += [f"removed {name}" for name in before if name not in after]
    for name, entry in after.items():
        old = before.get(name)
        if old is not None and old.raw != entry.raw:
            lines.append(f"changed {name}{_changed_members(old.value, entry.value)}")
    more = len(lines) - _CHANGES_SHOWN
    return lines if more <= 0 else [*lines[:_CHANGES_SHOWN], f"and {more} more"]


def _changed_members(old: object, new: object) -> str:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return ""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return f" ({', '.join(names)})" if names else ""


ListState: TypeAlias = Literal["absent", "loading", "ready", "failed"]

ENTRIES_MOST: Final = 20_000
_PAGES_MOST: Final = 5_000
_PAGE_ROWS: Final = 500
# Of one list; a server may describe a tool by megabytes.
_BYTES_MOST: Final = 64 * 1024 * 1024
# Between two fetches of a list that changes all the time.
_PAUSE: Final = 0.1
_PAUSE_MOST: Final = 30.0


class _Page(msgspec.Struct):
    next_cursor: Any = msgspec.field(name="nextCursor", default=None)


class FetchedList:
    """One list of a server."""

    def __init__(self) -> None:
        self.state: ListState = "absent"
        self.error = ""
        self.entries: dict[str, InspectedEntry] = {}
        self.changes: list[str] = []
        self.is_stale = False
        self.has_more = False
        self.is_fetching = False
        self.is_wanted_again = False
        self.was_fetched = False


class ServerCatalog:
    """The lists of a session's server, a part of a session."""

    def __init__(self, session: "InspectedSession") -> None:
        self._session = session
        self._lists: dict[CatalogKind, FetchedList] = {kind: FetchedList() for kind in LISTS}

    # -- fetching

    def fetch_all(self, client: "Client") -> None:
        """Fetch every list that the server declares, in the background."""
        for kind in LISTS:
            if not self.is_declared(kind, client):
                self._lists[kind] = FetchedList()
            else:
                self.fetch(kind)
        # Also an absent list is news: it was not known before.
        self._session.mark("catalog")

    @staticmethod
    def is_declared(kind: CatalogKind, client: "Client") -> bool:
        """Whether the server says that it has a list."""
        return getattr(client.capabilities, LISTS[kind].capability, None) is not None

    def fetch(self, kind: CatalogKind) -> None:
        """Fetch a list in the background; while that is done, once more after it."""
        fetched = self._lists[kind]
        fetched.is_stale = bool(fetched.entries)
        if fetched.is_fetching:
            fetched.is_wanted_again = True
            return
        fetched.is_fetching = True
        if fetched.state != "ready":
            fetched.state = "loading"
        self._session.mark("catalog")
        self._session.spawn(self._fetch(kind, fetched))

    def fetch_resources(self) -> None:
        """Fetch resources and templates: one notification is for both."""
        self.fetch("resources")
        self.fetch("templates")

    def mark_stale(self) -> None:
        """Note that the connection is gone; the lists stay to be read."""
        for fetched in self._lists.values():
            fetched.is_stale = fetched.state == "ready"
        self._session.mark("catalog")

    async def _fetch(self, kind: CatalogKind, fetched: FetchedList) -> None:
        pause = _PAUSE
        try:
            while True:
                fetched.is_wanted_again = False
                before = fetched.entries
                await self._fetch_once(kind, fetched)
                if not fetched.is_wanted_again:
                    return
                # Some servers announce a change whenever they are asked for the list.
                is_new = fetched.entries.keys() != before.keys() or bool(fetched.changes)
                pause = _PAUSE if is_new else min(pause * 2, _PAUSE_MOST)
                await asyncio.sleep(pause)
        finally:
            fetched.is_fetching = False
            self._session.mark("catalog")

    async def _fetch_once(self, kind: CatalogKind, fetched: FetchedList) -> None:
        client = self._session.part(LiveConnection).current
        if client is None:
            return
        entries: dict[str, InspectedEntry] = {}
        fetched.error, fetched.has_more = "", False
        try:
            await self._read_pages(client, kind, fetched, entries)
        except AccordError as error:
            fetched.error = str(error)
            if not entries:
                fetched.state = "failed"
                return
        if fetched.was_fetched:
            fetched.changes = describe_changes(fetched.entries, entries)
        fetched.entries, fetched.state, fetched.is_stale = entries, "ready", False
        fetched.was_fetched = True

    async def _read_pages(
        self,
        client: "Client",
        kind: CatalogKind,
        fetched: FetchedList,
        entries: dict[str, InspectedEntry],
    ) -> None:
        cursor: Any = None
        size = 0
        seen: set[str] = set()
        names: Counter[str] = Counter()
        for _ in range(_PAGES_MOST):
            raw, error = await self._read_page(client, kind, cursor)
            is_whole = _add_entries(entries, names, raw, kind)
            if error is not None:
                # What can be read of a wrong list is shown, beside what is wrong with it.
                fetched.error = str(error)
            if not fetched.was_fetched:
                fetched.entries = entries
                self._session.mark("catalog")
            cursor = msgspec.json.decode(raw, type=_Page).next_cursor
            if not is_whole:
                break
            if not isinstance(cursor, str):
                return
            if cursor in seen:
                fetched.error = f"the server names the page {cursor!r:.60} a second time"
                return
            seen.add(cursor)
            size += len(raw)
            if len(entries) >= ENTRIES_MOST or size >= _BYTES_MOST:
                break
        fetched.has_more = True

    async def _read_page(
        self, client: "Client", kind: CatalogKind, cursor: str | None
    ) -> tuple[bytes, RemoteProtocolError | None]:
        wrong: RemoteProtocolError | None = None
        with capture() as captured:
            try:
                await getattr(client, LISTS[kind].fetch)(cursor, fresh=True)
            except RemoteProtocolError as error:
                wrong = error
        last = captured.last()
        found = None if last is None else last.result
        if found is None or not found.lstrip().startswith(b"{"):
            raise wrong or RemoteProtocolError("the answer has no result")
        return found, wrong

    # -- for the page

    def find(self, kind: CatalogKind, name: str) -> InspectedEntry:
        """Return an entry.

        Raises:
            ActionRefused: the server does not list it.
        """
        entry = self._lists[kind].entries.get(name)
        if entry is None:
            raise ActionRefused(f"the server lists no {kind[:-1]} {name!r:.100}", field="name")
        return entry

    def schema_of(self, kind: Literal["tools", "prompts"], name: str) -> Any:
        """Return the input schema of a tool, or the arguments of a prompt; None if unknown."""
        entry = self._lists[kind].entries.get(name)
        value = None if entry is None else entry.value
        if not isinstance(value, dict):
            return None
        return value.get("inputSchema") if kind == "tools" else _arguments(value)

    def counts(self) -> dict[str, int]:
        """Return how many entries there are by capability: templates count as resources."""
        found: Counter[str] = Counter()
        for kind, facts in LISTS.items():
            found[facts.capability] += len(self._lists[kind].entries)
        return found

    def absent_kinds(self) -> list[str]:
        """Return the lists that the server does not offer."""
        return [kind for kind in LISTS if self._lists[kind].state == "absent"]

    def snapshot(self, kind: CatalogKind, text: str, start: int, count: int) -> JsonObject:
        """Return a part of a list."""
        fetched = self._lists[kind]
        is_known = fetched.state != "absent" or self._session.part(LiveConnection).current
        entries = list(fetched.entries.values())
        wanted = text.strip().lower()
        matching = [each for each in entries if each.matches(wanted)] if wanted else entries
        begin = max(0, start)
        shown = matching[begin : begin + max(0, min(count, _PAGE_ROWS))]
        return {
            "state": fetched.state if is_known else "unconnected",
            "error": fetched.error or None,
            "total": len(entries),
            "matching": len(matching),
            "entries": [each.snapshot() for each in shown],
            "changes": fetched.changes,
            "stale": fetched.is_stale,
            "has_more": fetched.has_more,
        }

    def describe(self, kind: CatalogKind, name: str) -> JsonObject:
        """Return everything about an entry.

        Raises:
            ActionRefused: the server does not list it.
        """
        entry = self.find(kind, name)
        found = entry.value
        value: JsonObject = found if isinstance(found, dict) else {}
        schema = value.get("outputSchema") if kind == "tools" else None
        return {
            **entry.snapshot(),
            "kind": kind,
            "description": entry.description,
            "raw": show_text(entry.raw),
            "form": _form_of(kind, value),
            "output_schema": None if schema is None else encode_text(schema),
            "tokens": entry.tokens,
            "confirm": reason_to_confirm(value) if kind == "tools" else "",
            "task": task_support(value) if kind == "tools" else "forbidden",
            "completes": self._completed_arguments(kind, value),
        }

    def _completed_arguments(self, kind: CatalogKind, value: JsonObject) -> list[str]:
        client = self._session.part(LiveConnection).current
        if client is None or kind in ("tools", "resources"):
            return []
        # The oldest revision has no capability for it.
        needed = REVISIONS[client.revision].needed_for("client", "completion/complete")
        if client.capabilities.completions is None and needed is not None:
            return []
        if kind == "prompts":
            return [each["name"] for each in _arguments(value)]
        return [each.name for each in template_form(value.get("uriTemplate", "")).fields]

    def as_catalog(self) -> JsonObject:
        """Return all lists in the shape that lint rules and lock files read."""
        found: JsonObject = {
            facts.member: [each.value for each in self._lists[kind].entries.values()]
            for kind, facts in LISTS.items()
        }
        client = self._session.part(LiveConnection).current
        if client is not None and client.instructions:
            found["instructions"] = client.instructions
        return found


def _add_entries(
    entries: dict[str, InspectedEntry], names: Counter[str], raw: bytes, kind: CatalogKind
) -> bool:
    """Add the entries of a page; return whether all of them have room.

    Args:
        entries: those of earlier pages.
        names: how often each name came.
        raw: the result.
        kind: of the list.
    """
    facts = LISTS[kind]
    try:
        found = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).get(facts.member)
        items = [] if found is None else msgspec.json.decode(found, type=list[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"{facts.member} is not a list: {error}") from None
    for item in items:
        if len(entries) >= ENTRIES_MOST:
            return False
        entry = InspectedEntry(bytes(item), facts.name)
        names[entry.name] += 1
        count = names[entry.name]
        # Equal names are a mistake that must be seen.
        if count > 1:
            entry.name = f"{entry.name} ({count})"
        entries[entry.name] = entry
    return True


def _arguments(value: JsonObject) -> list[JsonObject]:
    found = value.get("arguments")
    if not isinstance(found, list):
        return []
    return [each for each in found if isinstance(each, dict) and isinstance(each.get("name"), str)]


def _form_of(kind: CatalogKind, value: JsonObject) -> object:
    if kind == "tools":
        return build_form(value.get("inputSchema", {}))
    if kind == "prompts":
        return prompt_form(_arguments(value))
    return template_form(value.get("uriTemplate", "")) if kind == "templates" else None


@action("catalog.list")
async def list_catalog(
    session: "InspectedSession",
    *,
    kind: CatalogKind,
    text: str = "",
    start: int = 0,
    count: int = 100,
) -> object:
    """Return a part of a list."""
    catalog = session.part(ServerCatalog)
    return catalog.snapshot(kind, text, start, count)


@action("catalog.counts", kinds=READ)
async def count_catalog(session: "InspectedSession") -> object:
    """Return how much the server offers of each kind, and what it does not offer at all.

    Without a connection nothing is known.
    """
    if session.kind != "live" or session.part(LiveConnection).current is None:
        return {"counts": {}, "lacks": []}
    catalogs = session.part(ServerCatalog)
    lacks = catalogs.absent_kinds()
    if not session.part(TaskList).support()[0]:
        lacks.append("tasks")
    return {"counts": catalogs.counts(), "lacks": lacks}


@action("catalog.entry")
async def get_entry(session: "InspectedSession", *, kind: CatalogKind, name: str) -> object:
    """Return everything about an entry."""
    return session.part(ServerCatalog).describe(kind, name)


@action("catalog.refresh")
async def refresh_catalog(session: "InspectedSession", *, kind: CatalogKind) -> None:
    """Fetch a list again."""
    catalogs, client = session.part(ServerCatalog), session.part(LiveConnection).client
    if not catalogs.is_declared(kind, client):
        raise ActionRefused(f"the server declares no {kind}")
    catalogs.fetch(kind)


@action("catalog.lint")
async def lint_lists(session: "InspectedSession") -> object:
    """Return what is odd about names, descriptions and schemas."""
    from accord_tools.fleet.catalogs.lint import lint_catalog

    catalog, title = session.part(ServerCatalog).as_catalog(), session.target.name
    # Off the loop: thousands of tools take a while.
    findings = await asyncio.to_thread(lambda: lint_catalog(catalog, server=title))
    return {
        "findings": [
            {
                "rule": each.id,
                "severity": each.severity,
                "where": each.subject,
                "message": each.text,
            }
            for each in findings
        ]
    }
