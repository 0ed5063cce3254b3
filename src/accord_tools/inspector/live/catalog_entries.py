"""The entries of the lists of a server: tools, resources, templates and prompts."""

from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from accord.types import JsonObject

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
