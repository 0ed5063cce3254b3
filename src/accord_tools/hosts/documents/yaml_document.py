"""A text of YAML, and edits of one span."""

import re
from typing import Any, Final

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.bracketed import BracketedText, Writing
from accord_tools.hosts.documents.document import (
    Edit,
    TextPlace,
    UneditableDocument,
    begins_line,
    break_before,
    find_place,
    join_edits,
    line_break,
    line_end,
    line_start,
    next_line,
    remove_lines,
)
from accord_tools.hosts.documents.json_scanner import BracketContainer, BracketMember
from accord_tools.hosts.documents.value_texts import BlockStyle, format_flow, format_scalar
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
from accord_tools.hosts.documents.yaml_scanner import (
    YamlEntry,
    YamlNode,
    read_yaml,
    skip_properties,
)

_COMMENT: Final = re.compile(r"#[^\r\n]*")
_COMMENT_LINE: Final = re.compile(r"[ \t]*(?=#)")


class YamlDocument:
    """A text of YAML with one document.

    Args:
        text: of the file; one without any value counts as an empty object.

    Raises:
        UnreadableDocument: it is not YAML, or an object has a key twice.
        HostsError: PyYAML is not installed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        data, self._tree = read_yaml(text)
        self.data: Any = {} if data is None else data
        self._style = self._find_style()
        # By the identity of an object or list; thousands of values are looked up in a large file.
        self._by_key: dict[int, dict[tuple[type, Any], YamlEntry]] = {}

    def _find_style(self) -> BlockStyle:
        """Return how the file is indented: as the first object and list within an object are."""
        step = list_step = None
        nodes = [self._tree.root] if self._tree.root else []
        for node in nodes:
            if None not in (step, list_step):
                break
            for entry in node.entries:
                inner = entry.node
                nodes.append(inner)
                if node.kind == "object" and inner.entries and not (node.is_flow or inner.is_flow):
                    width = self._column(inner.entries[0].start) - self._column(entry.start)
                    if inner.kind == "object":
                        step = step or width
                    elif list_step is None:
                        list_step = width
        step = step if step and step > 0 else 2
        return BlockStyle(step, step if list_step is None or list_step < 0 else list_step)

    # -- where things are

    def _column(self, at: int) -> int:
        return at - line_start(self.text, at)

    def _path(self, keys: KeyPath) -> tuple[list[YamlNode], list[YamlEntry]]:
        """Return the nodes along a path, the root first, and the entries that lead to them."""
        entries: list[YamlEntry] = []
        nodes = [] if self._tree.root is None else [self._tree.root]
        for key in keys if nodes else ():
            entry = self._find_entry(nodes[-1], key)
            if entry is None:
                break
            entries.append(entry)
            nodes.append(entry.node)
        return nodes, entries

    def _find_entry(self, node: YamlNode, key: str | int) -> YamlEntry | None:
        if id(node) not in self._by_key:
            # The first of several, such as <<; 1 and true are two keys.
            pairs = {(type(each.key), each.key): each for each in reversed(node.entries)}
            self._by_key[id(node)] = pairs
        return self._by_key[id(node)].get((type(key), key))

    def span(self, keys: KeyPath) -> tuple[int, int] | None:
        """Return where a value begins and ends; None if it is not written in one place."""
        nodes, entries = self._path(keys)
        if len(entries) < len(keys) or not nodes or nodes[-1].kind == "alias":
            return None
        return nodes[-1].start, nodes[-1].end

    def find(self, keys: KeyPath) -> TextPlace | None:
        """Return where a value stands (its key, if it has one); None if it does not exist."""
        nodes, entries = self._path(keys)
        if len(entries) < len(keys) or not nodes:
            return None
        return find_place(self.text, entries[-1].start if entries else nodes[0].start)

    def _check_names(self, nodes: list[YamlNode], keys: KeyPath) -> None:
        """Check that a change of nodes shows at one place only."""
        named = {name for name, _ in self._tree.aliases}
        for size, node in enumerate(nodes):
            if node.kind == "alias":
                raise UneditableDocument(
                    f"{name_path(keys[:size])} is written as *{node.anchor}, which stands for a "
                    "value elsewhere; change it by hand"
                )
            if node.anchor in named:
                raise UneditableDocument(
                    f"{name_path(keys[:size])} has the anchor &{node.anchor}, which is used "
                    "elsewhere; change it by hand"
                )

    def _check_within(self, node: YamlNode, keys: KeyPath) -> None:
        """Check that nothing outside a node refers to a value in it."""
        todo = [node]
        names = set()
        while todo:
            inner = todo.pop()
            if inner.anchor and inner.kind != "alias":
                names.add(inner.anchor)
            todo += [entry.node for entry in inner.entries]
        for name, at in self._tree.aliases:
            if name in names and not node.start <= at < node.end:
                raise UneditableDocument(
                    f"{name_path(keys)} has the anchor &{name}, which is used elsewhere; "
                    "change it by hand"
                )

    # -- adding

    def set(self, keys: KeyPath, value: Any) -> Edit:
        """Return the edit that adds a value, or replaces it.

        Raises:
            UneditableDocument: it cannot be done without harm.
        """
        value = to_plain(value)
        nodes, entries = self._path(keys)
        if not nodes:
            return self._fill(wrap_value(keys, value))
        path, rest = keys[: len(entries)], keys[len(entries) :]
        node = nodes[-1]
        old = find_value(self.data, path)
        if not rest and is_same(old, value):
            return Edit(0, 0, "")
        self._check_names(nodes if rest else nodes[:-1], keys)
        if not rest or (node.kind == "scalar" and (old is None or (old == {} and not path))):
            return self._replace(path, old, wrap_value(rest, value))
        check_step(old, rest[0], path)
        if rest[1:] and find_value(self.data, (*path, rest[0])) is not ABSENT:
            raise UneditableDocument(
                f"{name_path((*path, rest[0]))} comes from elsewhere by a merge (<<); "
                "change it by hand"
            )
        return self._insert(path, rest[0], wrap_value(rest[1:], value))

    def _fill(self, value: Any) -> Edit:
        """Write the first value, behind comments that are there."""
        text, at = self.text, self._tree.end
        newline = line_break(text, 0)
        lines = newline.join(self._style.lines(value))
        if not at or text[at - 1] in "\r\n":
            return Edit(at, at, lines + newline)
        return Edit(at, at, newline + lines)

    def _insert(self, path: KeyPath, key: str | int, value: Any) -> Edit:
        text = self.text
        nodes, _ = self._path(path)
        node = nodes[-1]
        if node.is_flow:
            if not node.entries and not any(each.is_flow for each in nodes[:-1]):
                return self._replace_node(path, wrap_value((key,), value))
            return self._insert_flow(node, key, value)
        last = node.entries[-1]
        if last.after is None or node.entries[0].after is None:
            raise UneditableDocument(f"{name_path(path)} has keys with ?; change it by hand")
        column = self._column(node.entries[0].start)
        at = self._end_of_remarks(max(last.node.end, last.after), column)
        newline = line_break(text, at)
        lines = self._style.member(key, value) if isinstance(key, str) else self._style.item(value)
        return Edit(at, at, "".join(f"{newline}{' ' * column}{line}" for line in lines))

    def _end_of_remarks(self, at: int, column: int) -> int:
        """Return the end of a line, or of comments below it that are indented more."""
        text = self.text
        end = line_end(text, at)
        while (start := next_line(text, end)) < len(text):
            found = _COMMENT_LINE.match(text, start)
            if found is None or found.end() - start <= column:
                break
            end = line_end(text, start)
        return end

    def _brackets(self, node: YamlNode) -> tuple[BracketContainer, BracketedText]:
        text = self.text
        start = skip_properties(text, node.start)
        if text[start] not in "{[":
            raise UneditableDocument("an object without braces stands in a list; change it by hand")
        if any(entry.after is None for entry in node.entries):
            raise UneditableDocument("a key without a colon stands in braces; change it by hand")
        comments: list[tuple[int, int]] = []
        members: list[BracketMember] = []
        at = start + 1
        starts = [entry.start for entry in node.entries] + [node.end - 1]
        comments += [found.span() for found in _COMMENT.finditer(text, at, starts[0])]
        for entry, following in zip(node.entries, starts[1:], strict=True):
            end = max(entry.node.end, entry.after or entry.start)
            gap = [found.span() for found in _COMMENT.finditer(text, end, following)]
            first = gap[0][0] if gap else following
            comma = text.find(",", end, first)
            if comma < 0 and gap:
                comma = text.find(",", gap[-1][1], following)
            comments += gap
            members.append(
                BracketMember(
                    entry.key, entry.start, entry.node.start, end, comma if comma >= 0 else None
                )
            )
        return BracketContainer(start, node.end, members), BracketedText(text, comments)

    def _insert_flow(self, node: YamlNode, key: str | int, value: Any) -> Edit:
        if node.entries and node.entries[-1].node.start == node.entries[-1].node.end:
            raise UneditableDocument("the last key in braces has no value; change it by hand")
        written = format_flow(value)
        if isinstance(key, str):
            written = f"{format_scalar(key, in_flow=True)}: {written}"
        container, brackets = self._brackets(node)
        writing = Writing(lambda: written, lambda *_: written, "  ")
        return brackets.insert(container, writing, stays_in_line=True)

    # -- replacing

    def _replace(self, keys: KeyPath, old: Any, new: Any) -> Edit:
        node = self._path(keys)[0][-1]
        self._check_within(node, keys)
        changes = None if node.kind == "alias" else split_change(old, new)
        if changes is None or node.kind == "scalar":
            return self._replace_node(keys, new)
        return edit_parts(self, keys, changes)

    def _replace_node(self, keys: KeyPath, new: Any) -> Edit:
        text = self.text
        nodes, entries = self._path(keys)
        node = nodes[-1]
        if any(each.is_flow for each in nodes[:-1]):
            self._brackets(nodes[-2])  # they are checked
            gap = " " if node.start == node.end else ""
            return Edit(node.start, node.end, gap + format_flow(new))
        is_block = bool(new) and isinstance(new, dict | list)
        newline = line_break(text, node.start)
        if not entries:
            lines = newline.join(self._style.lines(new)) if is_block else format_flow(new)
            is_apart = is_block and not begins_line(text, node.start)
            return Edit(node.start, node.end, (newline if is_apart else "") + lines)
        entry = entries[-1]
        if entry.after is None:
            raise UneditableDocument(f"{name_path(keys)} is written with ?; change it by hand")
        column = self._column(entry.start)
        if isinstance(entry.key, int) and nodes[-2].kind == "list":
            item = [line[2:] for line in self._style.item(new)]
            return Edit(entry.after, node.end, " " + f"{newline}{' ' * (column + 2)}".join(item))
        end = line_end(text, entry.after)
        is_below = node.start > end
        if not is_block:
            remark = text[entry.after : end] if is_below else ""
            return Edit(entry.after, node.end, f" {self._style.item(new)[0][2:]}{remark}")
        step = self._style.step if isinstance(new, dict) else self._style.list_step
        indent = newline + " " * (column + step)
        lines = "".join(indent + line for line in self._style.lines(new))
        if is_below:
            return Edit(end, node.end, lines)
        edits = [Edit(entry.after, node.end, "")]
        stop = line_end(text, node.end)
        return join_edits(text, [*edits, Edit(stop, stop, lines)])

    # -- removing

    def remove(self, keys: KeyPath) -> Edit:
        """Return the edit that removes a value with its key, and comments that belong to it.

        Raises:
            UneditableDocument: there is no such value, or it cannot be removed without harm.
        """
        nodes, entries = self._path(keys)
        if not keys or len(entries) < len(keys):
            where = ""
            if keys and find_value(self.data, keys) is not ABSENT:
                where = " itself: it comes from elsewhere by a merge (<<) or an alias (*)"
            raise UneditableDocument(f"{name_path(keys)} is not in the document{where}")
        self._check_names(nodes[:-1], keys)
        self._check_within(nodes[-1], keys)
        around, entry = nodes[-2], entries[-1]
        place = around.entries.index(entry)
        if around.is_flow:
            container, brackets = self._brackets(around)
            return brackets.remove(container, place)
        if entry.after is None:
            raise UneditableDocument(f"{name_path(keys)} is written with ?; change it by hand")
        if len(around.entries) == 1:
            return self._empty(around, entries[-2] if len(entries) > 1 else None)
        if not begins_line(self.text, entry.start):
            return self._remove_first(around, keys)
        start, stop = self._lines_of(entry)
        return remove_lines(self.text, start, stop, self._end_before(start))

    def _end_before(self, at: int) -> int:
        """Return where the last value before a place ends: blank lines may belong to a text."""
        end = 0
        todo = [self._tree.root] if self._tree.root else []
        while todo:
            node = todo.pop()
            end = max(end, node.end if node.end <= at else 0)
            todo += [entry.node for entry in node.entries]
        return end

    def _lines_of(self, entry: YamlEntry) -> tuple[int, int]:
        """Return where the lines of an entry begin and end, with comments that belong to it."""
        text = self.text
        column = self._column(entry.start)
        start = line_start(text, entry.start)
        while start:
            above = line_start(text, break_before(text, start))
            found = _COMMENT_LINE.match(text, above)
            if found is None or found.end() - above != column:
                break
            start = above
        return start, self._end_of_remarks(max(entry.node.end, entry.after or 0), column)

    def _empty(self, around: YamlNode, entry: YamlEntry | None) -> Edit:
        """Remove the only entry; an object or a list without entries needs brackets."""
        text = self.text
        brackets = "{}" if around.kind == "object" else "[]"
        only = around.entries[0]
        if not begins_line(text, only.start) or entry is None or entry.after is None:
            return Edit(only.start, around.end, brackets)
        at = skip_properties(text, entry.after + 1) if around.anchor or around.has_tag else 0
        at = len(text[:at].rstrip(" ")) if at else entry.after
        start, stop = self._lines_of(only)
        return join_edits(
            text, [Edit(at, at, f" {brackets}"), Edit(break_before(text, start), stop, "")]
        )

    def _remove_first(self, around: YamlNode, keys: KeyPath) -> Edit:
        """Remove the first entry, which stands in the line of a dash."""
        entry, following = around.entries[:2]
        end = max(entry.node.end, entry.after or 0)
        if self.text[end : following.start].strip():
            raise UneditableDocument(f"comments stand below {name_path(keys)}; remove it by hand")
        return Edit(entry.start, following.start, "")
