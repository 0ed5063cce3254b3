"""A text of TOML, and edits of one span."""

from collections.abc import Mapping, Sequence
from typing import Any

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.bracketed import BracketedText, Writing
from accord_tools.hosts.documents.document import (
    Edit,
    TextPlace,
    UneditableDocument,
    break_before,
    find_place,
    has_blank_line,
    indentation,
    is_one_line,
    join_edits,
    line_break,
    line_end,
    line_start,
    next_line,
    remove_lines,
)
from accord_tools.hosts.documents.json_scanner import BracketContainer, BracketMember
from accord_tools.hosts.documents.toml_scanner import (
    TomlPair,
    TomlSection,
    find_toml_comments,
    read_brackets,
    read_toml,
    scan_toml,
)
from accord_tools.hosts.documents.value_texts import (
    format_key,
    format_pair,
    format_value,
    without_nulls,
)
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

# -- tables and keys added and removed, with the blank lines and comments around them


class TomlLayout:
    """The lines of a text of TOML."""

    def __init__(self, text: str, sections: Sequence[TomlSection]) -> None:
        self._text = text
        self._sections = sections

    # -- lines

    def _is_comment(self, start: int) -> bool:
        return self._text[start : line_end(self._text, start)].lstrip(" \t").startswith("#")

    def _start_of_remarks(self, start: int, least: int) -> int:
        """Return where the comment lines begin that touch a line from above."""
        while start > least:
            above = line_start(self._text, break_before(self._text, start))
            if above < least or not self._is_comment(above):
                break
            start = above
        return start

    def _last_statement(self, place: int) -> int:
        """Return where the last key or header of a section ends."""
        section = self._sections[place]
        return section.pairs[-1].end if section.pairs else section.end

    def _end(self, place: int) -> int:
        """Return where the last line of a section ends, with the comments that touch it."""
        text = self._text
        if place == 0 and not self._sections[0].pairs:
            return 0
        end = line_end(text, self._last_statement(place))
        at = end
        while (start := next_line(text, at)) < len(text) and self._is_comment(start):
            at = line_end(text, start)
        # Comments that touch the next header belong to that.
        touches = start < len(text) and not has_blank_line(text, start) and text[start:].strip()
        return end if touches else at

    def _start(self, place: int) -> int:
        """Return where a section begins, with the comments that touch its header."""
        if place == 0:
            return 0
        least = line_end(self._text, self._last_statement(place - 1)) if place > 1 else 0
        if place == 1 and self._sections[0].pairs:
            least = line_end(self._text, self._last_statement(0))
        return self._start_of_remarks(line_start(self._text, self._sections[place].start), least)

    # -- adding

    def has_tables(self, path: KeyPath) -> bool:
        """Return whether a table at a path gets its own header, and is not a key of its parent."""
        size = len(path)
        own = [each for each in self._sections[1:] if each.path == path]
        inner = [
            each for each in self._sections if each.path[:size] == path and len(each.path) > size
        ]
        return bool(inner) or not path or not own or not own[0].pairs

    def add_table(
        self, path: KeyPath, rest: KeyPath, members: Mapping[str, Any], *, is_list: bool = False
    ) -> Edit:
        """Return the edit that adds a table.

        Args:
            path: what exists of its path.
            rest: what does not exist.
            members: of the table.
            is_list: whether it is a table of a list of tables.
        """
        self._check_is_last(path)
        size = len(path)
        related = [
            place
            for place, each in enumerate(self._sections)
            if place and path and each.path[:size] == path
        ]
        after = related[-1] if related else len(self._sections) - 1
        indent, inner = self._indents(after)
        names = ".".join(format_key(each) for each in (*path, *rest) if isinstance(each, str))
        lines = [indent + (f"[[{names}]]" if is_list else f"[{names}]")]
        lines += [
            inner + format_pair(key, value).replace("\n", f"\n{inner}")
            for key, value in members.items()
        ]
        return self._insert_block(after, "\n".join(lines))

    def _check_is_last(self, path: KeyPath) -> None:
        """Check that a header leads to a table: within a list of tables, only to the last one."""
        for size in range(1, len(path)):
            if isinstance(path[size], int):
                tables = {
                    each.path[size]
                    for each in self._sections
                    if each.path[:size] == path[:size] and len(each.path) > size
                }
                if path[size] != max(tables, default=0):
                    raise UneditableDocument(
                        f"{name_path(path)} is not the last table of its list; change it by hand"
                    )

    def _indents(self, place: int) -> tuple[str, str]:
        section = self._sections[place]
        if place == 0:
            return "", ""
        indent = indentation(self._text, section.start)
        return indent, indentation(self._text, section.pairs[0].start) if section.pairs else indent

    def _insert_block(self, after: int, block: str) -> Edit:
        text = self._text
        if not text.strip():
            newline = line_break(text, 0)
            return Edit(0, 0, block.replace("\n", newline) + newline)
        is_last = after == len(self._sections) - 1
        at = self._end(after)
        if is_last and at == 0:
            at = len(text.rstrip())  # only comments
        newline = line_break(text, at)
        following = next_line(text, at)
        # Where tables stand without blank lines between them, the new one does, too.
        is_apart = not text[following:].strip() or has_blank_line(text, following)
        gap = newline * 2 if is_apart else newline
        return Edit(at, at, gap + block.replace("\n", newline))

    def add_pairs(self, path: KeyPath, members: Mapping[str, Any]) -> Edit:
        """Return the edit that adds keys to a table that exists."""
        text = self._text
        found = [each for each in self._sections if each.path == path]
        lines = [format_pair(key, value) for key, value in members.items()]
        if not found:
            size = len(path)
            dotted = [
                (pair, section)
                for section in self._sections
                for pair in section.pairs
                if pair.path[:size] == path
            ]
            if not dotted:
                return self.add_table(path, (), members)
            last, section = dotted[-1]
            around = "".join(
                f"{format_key(each)}."
                for each in path[len(section.path) :]
                if isinstance(each, str)
            )
            return self._insert_lines(last, [around + line for line in lines])
        section = found[0]
        if section.pairs:
            return self._insert_lines(section.pairs[-1], lines)
        if path:
            return self._insert_lines(section, lines)
        if len(self._sections) == 1:
            return self._insert_block(0, "\n".join(lines))
        at = self._start(1)
        newline = line_break(text, at)
        return Edit(at, at, "\n".join([*lines, "", ""]).replace("\n", newline))

    def _insert_lines(self, after: TomlPair | TomlSection, lines: Sequence[str]) -> Edit:
        at = line_end(self._text, after.end)
        newline = line_break(self._text, at)
        start = "\n" + indentation(self._text, after.start)
        return Edit(at, at, "".join(start + line for line in lines).replace("\n", newline))

    # -- removing

    def remove(self, keys: KeyPath) -> Edit:
        """Return the edit that removes a key, or a table with all that is below it."""
        size = len(keys)
        gone = [
            place for place, each in enumerate(self._sections) if each.path[:size] == keys and place
        ]
        edits = [
            self._remove_pair(section, pair)
            for place, section in enumerate(self._sections)
            if place not in gone
            for pair in section.pairs
            if pair.path[:size] == keys
        ]
        while gone:
            first = last = gone.pop(0)
            while gone and gone[0] == last + 1:
                last = gone.pop(0)
            edits.append(remove_lines(self._text, self._start(first), self._end(last)))
        return join_edits(self._text, edits)

    def _remove_pair(self, section: TomlSection, pair: TomlPair) -> Edit:
        place = section.pairs.index(pair)
        least = 0
        if place or section.path:
            before = section.pairs[place - 1].end if place else section.end
            least = line_end(self._text, before)
        start = self._start_of_remarks(line_start(self._text, pair.start), least)
        return remove_lines(self._text, start, line_end(self._text, pair.end))


# -- the document


class TomlDocument:
    """A text of TOML. Members that are null are left out: TOML cannot express them.

    Args:
        text: of the file.

    Raises:
        UnreadableDocument: it is not TOML.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.data: Any = read_toml(text)
        self._sections = scan_toml(text)
        self._layout = TomlLayout(text, self._sections)
        # Thousands of values are looked up in a large file.
        self._pairs = {pair.path: pair for section in self._sections for pair in section.pairs}
        self._starts = self._find_starts()

    # -- where things are

    def _find_starts(self) -> dict[KeyPath, int]:
        """Return where each value begins first: its header, or the first pair in it."""
        places = [(each.path, each.start) for each in self._sections[1:]]
        places += [(pair.path, pair.start) for pair in self._pairs.values()]
        starts: dict[KeyPath, int] = {}
        for path, start in places:
            for size in range(len(path) + 1):
                starts[path[:size]] = min(start, starts.get(path[:size], start))
        return starts

    def _pair_around(self, keys: KeyPath) -> TomlPair | None:
        """Return the pair whose value is at a path, or has the path within it."""
        found = (self._pairs.get(keys[:size]) for size in range(len(keys) + 1))
        return next((pair for pair in found if pair is not None), None)

    def _brackets(
        self, pair: TomlPair, keys: KeyPath
    ) -> tuple[list[BracketContainer], list[BracketMember]]:
        """Return lists and inline tables within a value along a path, and the members in them."""
        containers: list[BracketContainer] = []
        members: list[BracketMember] = []
        start = pair.value
        for key in keys[len(pair.path) :]:
            containers.append(read_brackets(self.text, start))
            found = [each for each in containers[-1].members if each.key == key]
            if not found:
                raise UneditableDocument(
                    f"{name_path(keys)} is written with a dotted key within braces; "
                    "change that by hand"
                )
            members.append(found[0])
            start = found[0].value
        return containers, members

    def find(self, keys: KeyPath) -> TextPlace | None:
        """Return where a value stands (its key, if it has one); None if it does not exist."""
        if find_value(self.data, keys) is ABSENT:
            return None
        if (pair := self._pair_around(keys)) is not None:
            try:
                members = self._brackets(pair, keys)[1]
            except UneditableDocument:
                members = []
            return find_place(self.text, members[-1].start if members else pair.start)
        return find_place(self.text, self._starts.get(keys, 0))

    def span(self, keys: KeyPath) -> tuple[int, int] | None:
        """Return where a value begins and ends; None if it is not written in one place."""
        pair = self._pair_around(keys)
        if pair is None:
            return None
        try:
            members = self._brackets(pair, keys)[1]
        except UneditableDocument:
            return None
        return (members[-1].value, members[-1].end) if members else (pair.value, pair.end)

    # -- adding

    def set(self, keys: KeyPath, value: Any) -> Edit:
        """Return the edit that adds a value, or replaces it.

        Raises:
            UneditableDocument: it cannot be done without harm.
        """
        value = without_nulls(to_plain(value))
        old = find_value(self.data, keys)
        if old is not ABSENT:
            return Edit(0, 0, "") if is_same(old, value) else self._replace(keys, old, value)
        depth = len(keys)
        while (around := find_value(self.data, keys[:depth])) is ABSENT:
            depth -= 1
        path, rest = keys[:depth], keys[depth:]
        check_step(around, rest[0], path)
        if (pair := self._pair_around(path)) is not None:
            return self._insert(pair, path, rest[0], wrap_value(rest[1:], value))
        return self._add(path, rest, value)

    def _insert(self, pair: TomlPair, path: KeyPath, key: str | int, value: Any) -> Edit:
        """Add to a list or an inline table."""
        _, members = self._brackets(pair, path)
        container = read_brackets(self.text, members[-1].value if members else pair.value)
        written = format_value(value)
        if isinstance(key, str):
            written = f"{format_key(key)} = {written}"
            if not container.members:
                written = f" {written} "
        comments = find_toml_comments(self.text, container.start, container.end)
        return BracketedText(self.text, comments).insert(
            container,
            Writing(lambda: written, lambda *_: written, "  ", needs_line=isinstance(key, str)),
            stays_in_line=True,
        )

    def _add(self, path: KeyPath, rest: KeyPath, value: Any) -> Edit:
        """Add a table, or a key to a table."""
        *names, last = rest
        is_table = isinstance(value, dict)
        if is_table and all(isinstance(each, str) for each in rest):
            if len(rest) > 1 or self._layout.has_tables(path):
                return self._layout.add_table(path, rest, value)
        elif is_table and isinstance(last, int) and not any(isinstance(n, int) for n in names):
            return self._layout.add_table(path, (*names,), value, is_list=True)
        elif len(rest) > 1 and all(isinstance(each, str) for each in rest):
            return self._layout.add_table(path, (*names,), {str(last): value})
        if isinstance(rest[0], int):
            raise UneditableDocument(f"{name_path(path)} is a list of tables; change it by hand")
        return self._layout.add_pairs(path, {rest[0]: wrap_value(rest[1:], value)})

    # -- replacing

    def _replace(self, keys: KeyPath, old: Any, new: Any) -> Edit:
        pair = self._pair_around(keys)
        if pair is not None:
            changes = split_change(old, new)
            if changes is None:
                return self._replace_value(pair, keys, new)
            return edit_parts(self, keys, changes)
        edits: list[Edit] = []
        if isinstance(old, list) and isinstance(new, list) and len(new) - len(old) in (0, 1):
            edits = [self.set((*keys, place), each) for place, each in enumerate(new)]
        elif isinstance(old, dict) and isinstance(new, dict):
            edits = [self.remove((*keys, key)) for key in old if key not in new]
            edits += [self.set((*keys, key), new[key]) for key in new if key in old]
            added = {key: value for key, value in new.items() if key not in old}
            if not any(each.path == keys for each in self._sections) and len(added) == len(new):
                # The tables that made this one are gone: it needs a header of its own.
                edits.append(self._layout.add_table(keys, (), new))
            elif added:
                edits.append(self._layout.add_pairs(keys, added))
        else:
            raise UneditableDocument(f"{name_path(keys)} has tables; change it by hand")
        # Where nothing changes, there is nothing to repeat.
        return join_edits(self.text, [each for each in edits if each != Edit(0, 0, "")])

    def _replace_value(self, pair: TomlPair, keys: KeyPath, new: Any) -> Edit:
        _, members = self._brackets(pair, keys)
        if members:
            return Edit(members[-1].value, members[-1].end, format_value(new))
        text = self.text
        newline = line_break(text, pair.end)
        if isinstance(new, list) and new and text[pair.value] == "[":
            first = read_brackets(text, pair.value).members[:1]
            if first and not is_one_line(text, pair.value, first[0].start):
                indent = newline + indentation(text, first[0].start)
                items = "".join(f"{indent}{format_value(each)}," for each in new)
                end = newline + indentation(text, pair.start)
                return Edit(pair.value, pair.end, f"[{items}{end}]")
        written = format_pair("k", new).removeprefix("k = ")
        return Edit(pair.value, pair.end, written.replace("\n", newline))

    # -- removing

    def remove(self, keys: KeyPath) -> Edit:
        """Return the edit that removes a value with its key, and comments that belong to it.

        Raises:
            UneditableDocument: there is no such value, or it cannot be removed without harm.
        """
        if not keys or find_value(self.data, keys) is ABSENT:
            raise UneditableDocument(f"{name_path(keys)} is not in the document")
        pair = self._pair_around(keys)
        if pair is not None and len(pair.path) < len(keys):
            containers, members = self._brackets(pair, keys)
            container = containers[-1]
            comments = find_toml_comments(self.text, container.start, container.end)
            return BracketedText(self.text, comments).remove(
                container, container.members.index(members[-1])
            )
        return self._layout.remove(keys)
