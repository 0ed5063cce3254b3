"""Tables and keys of TOML added and removed, with the blank lines and comments around them."""

from collections.abc import Mapping, Sequence
from typing import Any

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.document import Edit, UneditableDocument
from accord_tools.hosts.documents.text_lines import (
    break_before,
    has_blank_line,
    indentation,
    join_edits,
    line_break,
    line_end,
    line_start,
    next_line,
    remove_lines,
)
from accord_tools.hosts.documents.toml_scanner import TomlPair, TomlSection
from accord_tools.hosts.documents.toml_text import format_key, format_pair
from accord_tools.hosts.documents.values import name_path


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
