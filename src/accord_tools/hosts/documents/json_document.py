"""A text of JSON, with or without comments, and edits of one span."""

import re
from typing import Any, Final

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.bracketed import BracketedText, Writing
from accord_tools.hosts.documents.document import (
    Edit,
    TextPlace,
    UneditableDocument,
    find_place,
    indentation,
    is_one_line,
    line_break,
)
from accord_tools.hosts.documents.json_scanner import (
    BracketContainer,
    BracketMember,
    read_container,
    scan_json,
    skip_space,
    skip_value,
)
from accord_tools.hosts.documents.value_texts import format_json
from accord_tools.hosts.documents.values import (
    ABSENT,
    check_step,
    edit_parts,
    find_value,
    is_same,
    name_path,
    split_change,
    to_plain,
    wrap_value,
)

_INDENTED: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class JsonDocument:
    """A text of JSON; comments and trailing commas are allowed.

    Args:
        text: of the file; one without any value counts as an empty object.

    Raises:
        UnreadableDocument: it is not JSON, or an object has a key twice.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        scan = scan_json(text)
        self._plain = scan.plain
        self._is_empty = scan.is_empty
        self._brackets = BracketedText(text, scan.comments)
        self.data: Any = {} if scan.is_empty else scan.data
        # By their beginning: many entries are looked up in the same few of a large file.
        self._read: dict[
            int, tuple[BracketContainer, dict[str | int | KeyPath, BracketMember]]
        ] = {}

    # -- where things are

    def _path(self, keys: KeyPath) -> tuple[list[BracketContainer], list[BracketMember]]:
        """Return the containers along a path, and the members in them, as far as they exist."""
        containers: list[BracketContainer] = []
        members: list[BracketMember] = []
        if self._is_empty:
            return containers, members
        start = skip_space(self._plain, 0)
        for key in (*keys, None):
            if self._plain[start] not in "{[":
                break
            if key is None:
                break
            container, by_key = self._container(start)
            containers.append(container)
            if key not in by_key:
                break
            members.append(by_key[key])
            start = by_key[key].value
        return containers, members

    def _container(
        self, start: int
    ) -> tuple[BracketContainer, dict[str | int | KeyPath, BracketMember]]:
        """Return the object or list that begins at a place, and its members by key."""
        if start not in self._read:
            container = read_container(self._plain, start)
            by_key = {each.key: each for each in container.members}
            self._read[start] = container, by_key
        return self._read[start]

    def find(self, keys: KeyPath) -> TextPlace | None:
        """Return where a value stands (its key, if it has one); None if it does not exist."""
        if find_value(self.data, keys) is ABSENT or self._is_empty:
            return None
        if not keys:
            return find_place(self.text, skip_space(self._plain, 0))
        return find_place(self.text, self._path(keys)[1][-1].start)

    def span(self, keys: KeyPath) -> tuple[int, int] | None:
        """Return where a value begins and ends; None if it does not exist."""
        members = self._path(keys)[1]
        if not keys or len(members) < len(keys):
            return None
        return members[-1].value, members[-1].end

    # -- edits

    def set(self, keys: KeyPath, value: Any) -> Edit:
        """Return the edit that adds a value, or replaces it.

        Raises:
            UneditableDocument: something on the path is not an object or a list.
        """
        value = to_plain(value)
        if self._is_empty:
            return self._fill(wrap_value(keys, value))
        depth = len(keys)
        while (old := find_value(self.data, keys[:depth])) is ABSENT:
            depth -= 1
        rest = keys[depth:]
        if not rest or old is None:
            return self._replace(keys[:depth], old, wrap_value(rest, value))
        check_step(old, rest[0], keys[:depth])
        return self._insert(keys[:depth], rest[0], wrap_value(rest[1:], value))

    def _fill(self, value: Any) -> Edit:
        """Write the first value, behind comments that are there."""
        text = self.text
        newline = line_break(text, 0)
        end = len(text)
        written = format_json(value).replace("\n", newline)
        if not text.strip():
            return Edit(end, end, written + newline)
        ends = text.endswith(("\n", "\r"))
        return Edit(end, end, written + newline if ends else newline + written)

    def _replace(self, keys: KeyPath, old: Any, new: Any) -> Edit:
        if is_same(old, new):
            return Edit(0, 0, "")
        changes = split_change(old, new)
        if changes is not None:
            return edit_parts(self, keys, changes)
        containers, members = self._path(keys)
        start = members[-1].value if members else skip_space(self._plain, 0)
        end = skip_value(self._plain, start)
        around = containers[-1] if containers else None
        in_line = is_one_line(self.text, start, end) and bool(old) and isinstance(old, dict | list)
        if around is not None and is_one_line(self.text, around.start, around.end):
            in_line = True
        if in_line:
            return Edit(start, end, format_json(new, None, is_dense=self._is_dense(members)))
        newline = line_break(self.text, start)
        indent = indentation(self.text, start)
        written = format_json(new, self._step()).replace("\n", newline + indent)
        return Edit(start, end, written)

    def _insert(self, keys: KeyPath, key: str | int, value: Any) -> Edit:
        containers, members = self._path(keys)
        start = members[-1].value if members else skip_space(self._plain, 0)
        container = self._container(start)[0]
        around = containers[-1] if containers else None
        step = self._step()
        is_dense = self._is_dense(container.members or members)

        def name(colon: str) -> str:
            return f"{format_json(key)}{colon}" if isinstance(key, str) else ""

        def one_line() -> str:
            return name(":" if is_dense else ": ") + format_json(value, None, is_dense=is_dense)

        def lines(indent: str, newline: str) -> str:
            return name(": ") + format_json(value, step).replace("\n", newline + indent)

        stays = bool(container.members) or (
            around is not None and is_one_line(self.text, around.start, around.end)
        )
        return self._brackets.insert(container, Writing(one_line, lines, step), stays_in_line=stays)

    def _is_dense(self, members: list[BracketMember]) -> bool:
        """Return whether no blank stands between a key and its value."""
        named = [each for each in members if isinstance(each.key, str)]
        return bool(named) and self.text[named[-1].value - 1] == ":"

    def _step(self) -> str:
        """Return the indentation of one level."""
        start = skip_space(self._plain, 0)
        if self._plain[start] in "{[":
            for member in self._container(start)[0].members[:20]:
                indent = indentation(self.text, member.start)
                if indent and indentation(self.text, start) == "":
                    return indent
        found = _INDENTED.search(self._plain)
        return found[1] if found else "  "

    def remove(self, keys: KeyPath) -> Edit:
        """Return the edit that removes a value with its key, and comments that belong to it.

        Raises:
            UneditableDocument: there is no such value.
        """
        if not keys or find_value(self.data, keys) is ABSENT:
            raise UneditableDocument(f"{name_path(keys)} is not in the document")
        containers, members = self._path(keys)
        container = containers[-1]
        return self._brackets.remove(container, container.members.index(members[-1]))
