"""Where two contents of a file differ, and changes found again after other programs wrote."""

from difflib import SequenceMatcher
from typing import Final, NamedTuple

# Comparing lines takes the square of their number.
_MOST_LINES: Final = 2000
# A place is found again by this many bytes at least, and at most so many on either side.
_LEAST: Final = 16
_MOST_AROUND: Final = 256


class Span(NamedTuple):
    """Bytes from `start` on: `old` of the former content gave way to `new` of the other.

    `start` counts in the new content.
    """

    start: int
    old: int
    new: int


def changed_spans(before: bytes, after: bytes) -> tuple[Span, ...]:
    """Return the spans in which two contents differ, in their order."""
    prefix = _common_prefix(before, after)
    most = min(len(before), len(after)) - prefix
    suffix = _common_suffix(before, after, most)
    old, new = before[prefix : len(before) - suffix], after[prefix : len(after) - suffix]
    if not old and not new:
        return ()
    if not old or not new or max(old.count(b"\n"), new.count(b"\n")) > _MOST_LINES:
        return (Span(prefix, len(old), len(new)),)
    return _spans_of_lines(old, new, prefix)


def _spans_of_lines(old: bytes, new: bytes, start: int) -> tuple[Span, ...]:
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    spans = []
    matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    at = start
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        old_size = sum(map(len, old_lines[old_from:old_to]))
        new_size = sum(map(len, new_lines[new_from:new_to]))
        if kind != "equal":
            spans.append(Span(at, old_size, new_size))
        at += new_size
    return tuple(spans)


def reverse_spans(
    before: bytes, after: bytes, spans: tuple[Span, ...], current: bytes
) -> bytes | None:
    """Return a content without the changes that led from `before` to `after`.

    Args:
        before: the content without the changes.
        after: the content with them, and nothing else changed.
        spans: where these two differ.
        current: the content with them, and with changes of other programs.

    Returns:
        None if a change is not found in exactly one place.
    """
    edits = []
    shift = 0
    for span in spans:
        at = _find_once(after, span, current)
        if at is None:
            return None
        old_start = span.start + shift
        edits.append((at, span.new, before[old_start : old_start + span.old]))
        shift += span.old - span.new
    ends = [0, *(at + new for at, new, _ in edits)]
    if any(at < end for (at, _, _), end in zip(edits, ends, strict=False)):
        return None  # they are in another order by now, or overlap
    for at, new, text in reversed(edits):
        current = current[:at] + text + current[at + new :]
    return current


def _find_once(after: bytes, span: Span, current: bytes) -> int | None:
    """Return where a span of one content begins in another, by as little around it as it takes."""
    end = span.start + span.new
    around = max(0, (_LEAST - span.new + 1) // 2)
    while True:
        first = max(0, span.start - around)
        sought = after[first : end + around]
        at = current.find(sought)
        if at < 0 or not sought:
            return None
        if current.find(sought, at + 1) < 0:
            return at + span.start - first
        if around >= _MOST_AROUND:
            return None
        around = max(8, around * 2)


def _common_prefix(one: bytes, other: bytes) -> int:
    # Comparing slices takes one step for many bytes.
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(one: bytes, other: bytes, most: int) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
