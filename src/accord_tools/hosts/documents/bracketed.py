"""Members added to and removed from what stands between brackets, with commas and comments."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from accord_tools.hosts.documents.document import (
    Edit,
    begins_line,
    break_before,
    has_blank_line,
    indentation,
    is_one_line,
    line_break,
    line_end,
    line_start,
    next_line,
)
from accord_tools.hosts.documents.json_scanner import BracketContainer


class Writing(NamedTuple):
    """How a new member is written.

    Attributes:
        one_line: returns it in one line.
        lines: returns it in several, each with the given indentation.
        step: by which the file is indented.
        needs_line: whether the format allows no line ends between these brackets.
    """

    one_line: Callable[[], str]
    lines: Callable[[str, str], str]
    step: str
    needs_line: bool = False


class BracketedText:
    """A text with brackets, commas and comments.

    Args:
        text: of the file.
        comments: where comments are, in order.
    """

    def __init__(self, text: str, comments: Sequence[tuple[int, int]]) -> None:
        self._text = text
        self._comments = comments

    # -- adding

    def insert(self, container: BracketContainer, writing: Writing, *, stays_in_line: bool) -> Edit:
        """Return the edit that adds a member after the last one.

        Args:
            container: to add to.
            writing: of the new member.
            stays_in_line: whether an empty container, or one in one line, is to stay in its line.
        """
        text = self._text
        if not container.members:
            return self._insert_first(container, writing, stays_in_line=stays_in_line)
        last = container.members[-1]
        is_in_line = stays_in_line and is_one_line(text, container.start, container.end)
        if is_in_line or writing.needs_line:
            gap = self._usual_gap(container)
            if last.comma is None:
                return Edit(last.end, last.end, f",{gap}{writing.one_line()}")
            return Edit(last.comma + 1, last.comma + 1, f"{gap}{writing.one_line()},")
        indent = self._indent_of_members(container, writing.step)
        at = last.end if last.comma is None else last.comma + 1
        to = self._end_of_remarks(at)
        if (end := line_end(text, to)) < container.end and not text[to:end].strip(" \t"):
            to = end
        newline = line_break(text, to)
        written = f"{newline}{indent}{writing.lines(indent, newline)}"
        if last.comma is not None:
            return Edit(to, to, f"{written},")
        return Edit(at, to, f",{text[at:to]}{written}")

    def _insert_first(
        self, container: BracketContainer, writing: Writing, *, stays_in_line: bool
    ) -> Edit:
        text = self._text
        inner, close = container.start + 1, container.end - 1
        is_blank = not text[inner:close].strip()
        if stays_in_line and is_one_line(text, inner, close):
            if is_blank:
                return Edit(inner, close, writing.one_line())
            return Edit(inner, inner, f"{writing.one_line()} ")
        around = indentation(text, container.start)
        indent = around + writing.step
        to = self._end_of_remarks(inner)
        newline = line_break(text, container.start)
        written = f"{newline}{indent}{writing.lines(indent, newline)}"
        if is_one_line(text, to, close):
            return Edit(to, close, f"{written}{newline}{around}")
        return Edit(to, to, written)

    def _usual_gap(self, container: BracketContainer) -> str:
        """Return the blanks after a comma."""
        members = container.members
        if len(members) > 1 and (comma := members[-2].comma) is not None:
            gap = self._text[comma + 1 : members[-1].start]
            if not gap.strip(" \t"):
                return gap
            return " "
        first = members[0]
        after_colon = self._text[first.value - 1 : first.value]
        return "" if isinstance(first.key, str) and after_colon == ":" else " "

    def _indent_of_members(self, container: BracketContainer, step: str) -> str:
        for member in reversed(container.members):
            if begins_line(self._text, member.start):
                return indentation(self._text, member.start)
        return indentation(self._text, container.start) + step

    def _end_of_remarks(self, at: int) -> int:
        """Return where comments end that begin in the same line, or the place itself."""
        text = self._text
        place = bisect_left(self._comments, (at, at))
        for start, end in self._comments[place:]:
            gap = text[at:start]
            if gap.strip(" \t"):
                break
            at = end
        return at

    # -- removing

    def remove(self, container: BracketContainer, place: int) -> Edit:
        """Return the edit that removes a member, its comma and the comments that belong to it."""
        text = self._text
        members = container.members
        member = members[place]
        end = member.end if member.comma is None else member.comma + 1
        to = self._end_of_remarks(end)
        stop = line_end(text, to)
        if begins_line(text, member.start) and not text[to:stop].strip(" \t"):
            start = self._start_of_remarks(line_start(text, member.start))
            inner, close = container.start + 1, container.end - 1
            if len(members) == 1 and not (text[inner:start] + text[stop:close]).strip():
                return Edit(inner, close, "")
            return self._remove_lines(container, place, start, stop)
        if len(members) == 1:
            rest = self._comments_between(container.start, container.end)
            if rest:
                return Edit(member.start, end, "")
            return Edit(container.start + 1, container.end - 1, "")
        return self._remove_in_line(container, place, end)

    def _remove_lines(self, container: BracketContainer, place: int, start: int, to: int) -> Edit:
        text = self._text
        members = container.members
        is_first, is_last = place == 0, place == len(members) - 1
        begin = break_before(text, start)
        after = next_line(text, to)
        ends = is_last and not text[to : container.end - 1].strip()
        if ends or has_blank_line(text, after):
            while begin > 0 and not text[(above := line_start(text, begin)) : begin].strip(" \t"):
                begin = break_before(text, above)
        if is_first and not text[container.start + 1 : begin].strip():
            while has_blank_line(text, after):
                to, after = line_end(text, after), next_line(text, after)
        comma = None if is_first else members[place - 1].comma
        if is_last and members[place].comma is None and comma is not None:
            return Edit(comma, to, text[comma + 1 : begin])
        return Edit(begin, to, "")

    def _remove_in_line(self, container: BracketContainer, place: int, end: int) -> Edit:
        text = self._text
        member = container.members[place]
        if place + 1 < len(container.members):
            following = container.members[place + 1].start
            if not text[end:following].strip(" \t"):
                return Edit(member.start, following, "")
            start = len(text[: member.start].rstrip(" \t"))
            if begins_line(text, member.start):
                start = member.start
                end += len(text[end:following]) - len(text[end:following].lstrip(" \t"))
            return Edit(start, end, "")
        before = container.members[place - 1].comma
        assert before is not None  # a member follows it
        comments = self._comments_between(before + 1, member.start)
        kept = text[before + 1 : member.start]
        if not comments:
            kept = ""
        elif text.startswith("/*", comments[-1][0]):
            kept = text[before + 1 : comments[-1][1]]
        if member.comma is None:
            return Edit(before, end, kept)
        return Edit(before + 1, end, kept)

    def _comments_between(self, start: int, end: int) -> list[tuple[int, int]]:
        first = bisect_left(self._comments, (start, start))
        return [each for each in self._comments[first:] if each[1] <= end]

    def _start_of_remarks(self, start: int) -> int:
        """Return where the comment lines begin that touch a line from above."""
        text = self._text
        place = bisect_left(self._comments, (start, start)) - 1
        while place >= 0:
            begin, end = self._comments[place]
            if text[end : break_before(text, start)].strip(" \t") or end > start:
                break
            if not begins_line(text, begin):
                break
            start = line_start(text, begin)
            place -= 1
        return start
