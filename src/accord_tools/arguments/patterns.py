"""Texts that match a regular expression: for the usual subset, without running the expression.

Anything else (lookaround, references, anchors in the middle) has no text, which is said so. Reading
and writing are bounded, so that a pattern of a stranger costs nothing.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

_LONGEST_PATTERN: Final = 1_000
_LONGEST_TEXT: Final = 2_000
_DEEPEST: Final = 20
# Printable ASCII, in the order in which characters are chosen.
_DIGITS: Final = "1234567890"
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_UPPER: Final = _LOWER.upper()
_SIGNS: Final = "-_.@/:+#=,;!?$%&*~'\"()<>[]{}|^`\\ \t\n\r\f\v"
_ALL: Final = _LOWER + _DIGITS + _UPPER + _SIGNS
_WORD: Final = _LOWER + _DIGITS + _UPPER + "_"
_SPACE: Final = " \t\n\r\f\v"


def _without(taken: str) -> str:
    return "".join(each for each in _ALL if each not in taken)


_CLASSES: Final = {
    "d": _DIGITS,
    "D": _without(_DIGITS),
    "w": _WORD,
    "W": _without(_WORD),
    "s": _SPACE,
    "S": _without(_SPACE),
}
_PROPERTIES: Final = {
    "L": _LOWER + _UPPER,
    "Letter": _LOWER + _UPPER,
    "Ll": _LOWER,
    "Lu": _UPPER,
    "N": _DIGITS,
    "Nd": _DIGITS,
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}


@dataclass
class _Characters:
    """One character out of some."""

    among: str
    length: int = 1


@dataclass
class _Repeat:
    """A part that comes several times; `most` is None without a limit."""

    part: "_Node"
    least: int
    most: int | None

    @property
    def length(self) -> int:
        return self.part.length * self.least


@dataclass
class _Sequence:
    """Parts one after the other."""

    parts: "list[_Node]" = field(default_factory=list)

    @property
    def length(self) -> int:
        return sum(each.length for each in self.parts)


@dataclass
class _Choice:
    """One of several parts."""

    options: "list[_Node]"

    @property
    def length(self) -> int:
        return min(each.length for each in self.options)


_Node: TypeAlias = _Characters | _Repeat | _Sequence | _Choice


class _Unknown(Exception):
    """The pattern has more than is read here."""


def text_for_pattern(pattern: str, *, least: int = 0, turn: int = 0) -> str | None:
    """Return a text that matches a pattern; None if none can be made here.

    Args:
        pattern: a regular expression, as JSON Schema has them.
        least: how long the text shall be, if the pattern allows it.
        turn: chooses other characters, for texts that differ.

    >>> text_for_pattern("^[A-Z]{2}-[0-9]{3,5}$")
    'AB-123'
    """
    try:
        node = _Reader(pattern).read()
    except _Unknown:
        return None
    if node.length > _LONGEST_TEXT:
        return None
    return _Writer(turn).write(node, min(least, _LONGEST_TEXT))


class _Reader:
    """Reads a pattern."""

    def __init__(self, pattern: str) -> None:
        has_end = pattern.endswith("$") and not pattern.endswith("\\$")
        self._is_anchored = pattern.startswith("^") or has_end
        self._text = pattern[pattern.startswith("^") : len(pattern) - has_end]
        self._at = 0

    def read(self) -> _Node:
        """Return the whole.

        Raises:
            _Unknown: it has more than is read here.
        """
        if len(self._text) > _LONGEST_PATTERN:
            raise _Unknown
        found = self._choice(0)
        if self._at < len(self._text):
            raise _Unknown
        # ^a|b$ is two patterns, each with one of the anchors.
        if isinstance(found, _Choice) and self._is_anchored:
            raise _Unknown
        return found

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, *wanted: str) -> bool:
        """Go past one of some texts, if it is next."""
        for each in wanted:
            if self._text.startswith(each, self._at):
                self._at += len(each)
                return True
        return False

    def _next(self) -> str:
        found = self._peek()
        if not found:
            raise _Unknown
        self._at += 1
        return found

    def _choice(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise _Unknown
        options: list[_Node] = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else _Choice(options)

    def _sequence(self, depth: int) -> _Node:
        parts: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            part = self._atom(depth)
            parts.append(self._repetition(part))
        return _Sequence(parts)

    def _atom(self, depth: int) -> _Node:
        sign = self._next()
        if sign == "(":
            return self._group(depth)
        if sign == "[":
            return _Characters(self._class())
        if sign == "\\":
            return _Characters(self._escape())
        if sign == ".":
            return _Characters(_without("\n\r"))
        if sign in "^$*+?{":
            raise _Unknown
        return _Characters(sign)

    def _group(self, depth: int) -> _Node:
        if self._take("?:"):
            pass
        elif self._take("?<", "?P<"):
            if self._peek() in "=!":
                raise _Unknown
            while self._next() != ">":
                pass
        elif self._peek() == "?":
            raise _Unknown
        found = self._choice(depth + 1)
        if not self._take(")"):
            raise _Unknown
        return found

    def _repetition(self, part: _Node) -> _Node:
        least, most = self._count()
        if (least, most) == (1, 1):
            return part
        self._take("?", "+")
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            raise _Unknown
        return _Repeat(part, least, most)

    def _count(self) -> tuple[int, int | None]:
        if self._take("*"):
            return 0, None
        if self._take("+"):
            return 1, None
        if self._take("?"):
            return 0, 1
        if not self._take("{"):
            return 1, 1
        end = self._text.find("}", self._at)
        first, comma, second = self._text[self._at : max(end, 0)].partition(",")
        self._at = end + 1
        given = [each for each in (first, second) if each]
        if end < 0 or not first or not all(each.isdecimal() and len(each) < 6 for each in given):
            raise _Unknown
        if not comma:
            return int(first), int(first)
        return int(first), int(second) if second else None

    def _escape(self) -> str:
        sign = self._next()
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign in "xu":
            return self._code(2 if sign == "x" else 4)
        if sign == "p" and self._take("{"):
            name, closing, _ = self._text[self._at :].partition("}")
            self._at += len(name) + len(closing)
            if name in _PROPERTIES:
                return _PROPERTIES[name]
        if sign.isalnum():
            raise _Unknown
        return sign

    def _code(self, digits: int) -> str:
        found = self._text[self._at : self._at + digits]
        self._at += digits
        try:
            code = int(found, 16)
        except ValueError:
            raise _Unknown from None
        if len(found) < digits or 0xD800 <= code < 0xE000:
            raise _Unknown
        return chr(code)

    def _class(self) -> str:
        is_negative = self._take("^")
        members: list[str] = []
        while not self._take("]"):
            low = self._escape() if self._take("\\") else self._next()
            is_range = self._peek() == "-" and self._text[self._at + 1 : self._at + 2] != "]"
            if not is_range or len(low) > 1:
                members.append(low)
                continue
            self._at += 1
            high = self._escape() if self._take("\\") else self._next()
            if len(high) > 1 or ord(low) > ord(high):
                raise _Unknown
            members.append(_between(low, high))
        found = "".join(members)
        chosen = _without(found) if is_negative else _in_order(found)
        if not chosen:
            raise _Unknown
        return chosen


def _between(low: str, high: str) -> str:
    """Return the characters of a range: those that are easy to read, else its ends."""
    found = "".join(each for each in _ALL if low <= each <= high)
    return "".join(dict.fromkeys(found + low + high))


def _in_order(members: str) -> str:
    """Return characters with those first that are easy to read."""
    wanted = set(members)
    plain = [each for each in _ALL if each in wanted]
    return "".join(dict.fromkeys([*plain, *members]))


class _Writer:
    """Writes a text for a pattern."""

    def __init__(self, turn: int) -> None:
        self._turn = turn

    def write(self, node: _Node, least: int) -> str:
        """Return a text that is as long as was asked for, if it can be."""
        if isinstance(node, _Characters):
            return node.among[self._turn % len(node.among)]
        if isinstance(node, _Sequence):
            return self._sequence(node.parts, least)
        if isinstance(node, _Choice):
            fits = [each for each in node.options if _longest(each) >= least]
            return self.write((fits or node.options)[0], least)
        return self._repeat(node, least)

    def _sequence(self, parts: list[_Node], least: int) -> str:
        missing = least - sum(each.length for each in parts)
        made: list[str] = []
        for each in parts:
            text = self.write(each, each.length + max(0, missing))
            missing -= len(text) - each.length
            made.append(text)
        return "".join(made)

    def _repeat(self, node: _Repeat, least: int) -> str:
        made: list[str] = []
        length = 0
        turn = self._turn
        most = _LONGEST_TEXT if node.most is None else node.most
        while len(made) < node.least or (length < least and len(made) < most):
            # 123 says more than 111.
            self._turn = turn + len(made)
            text = self.write(node.part, 0)
            if not text:
                break  # more of nothing
            made.append(text)
            length += len(text)
        self._turn = turn
        return "".join(made)


def _longest(node: _Node) -> int:
    """Return how long a text of a part can be."""
    if isinstance(node, _Characters):
        return 1
    if isinstance(node, _Sequence):
        return min(_LONGEST_TEXT, sum(map(_longest, node.parts)))
    if isinstance(node, _Choice):
        return max(map(_longest, node.options))
    most = _LONGEST_TEXT if node.most is None else node.most
    return min(_LONGEST_TEXT, _longest(node.part) * most)
