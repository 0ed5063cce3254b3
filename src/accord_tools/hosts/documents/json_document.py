"""A text of JSON, with or without comments, and edits of one span; what is wrong with it, if so."""

import json
import re
import unicodedata
from typing import Any, Final, NoReturn

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.bracketed import BracketedText, Writing
from accord_tools.hosts.documents.document import (
    MOST_LEVELS,
    Edit,
    TextPlace,
    UneditableDocument,
    UnreadableDocument,
    find_place,
    indentation,
    is_one_line,
    join_edits,
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
    find_value,
    is_same,
    name_path,
    split_change,
    to_plain,
    wrap_value,
)

# -- what is wrong with a text that should be JSON, said so that a person can mend it


_SPACE: Final = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_INSIDE: Final = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_WORD: Final = re.compile(r"[^\s,:\[\]{}\"'/=]+")
_CONSTANTS: Final = {"true", "false", "null"}
_OTHER_NAMES: Final = {
    "True": "true",
    "TRUE": "true",
    "False": "false",
    "FALSE": "false",
    "None": "null",
    "nil": "null",
    "undefined": "null",
    "NULL": "null",
}
_CLOSING: Final = {"{": "}", "[": "]"}
_KINDS: Final = {"{": "object", "[": "list"}


def explain_fault(text: str) -> None:
    """Raise what is wrong with a text; return if it is valid.

    Raises:
        UnreadableDocument: says what is wrong, with line and column.
    """
    _FaultFinder(text).check()


class _FaultFinder:
    """Goes through a text value by value, without recursion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        # The brackets that are open, and the keys that each object has so far.
        self._open: list[tuple[int, dict[str, int]]] = []

    def check(self) -> None:
        self._skip()
        self._value()
        while self._open:
            end = self._at
            self._skip()
            self._after_value(end)
        self._skip()
        if self._at < len(self._text):
            sign = self._text[self._at]
            if sign in "]}":
                self._fail(f"{sign} closes nothing: there is one bracket too many")
            self._fail_at_sign("the document ends before this; only one value may stand in a file")

    def _fail(self, message: str, at: int | None = None) -> NoReturn:
        place = find_place(self._text, self._at if at is None else at)
        raise UnreadableDocument(message, place)

    def _line(self, at: int) -> int:
        return find_place(self._text, at).line

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None  # it matches everything
        self._at = found.end()
        if self._text.startswith("/*", self._at):
            self._fail("a comment begins here with /* and never ends")

    def _sign(self) -> str:
        return self._text[self._at : self._at + 1]

    def _fail_at_sign(self, usual: str) -> NoReturn:
        """Name what often stands where it must not, or say what is usual to say there."""
        sign = self._sign()
        if not sign:
            self._fail_at_end()
        if re.match(r"<{7} |={7}$|>{7} ", self._text[self._at : self._at + 8], re.MULTILINE):
            self._fail("a conflict of git has not been resolved here")
        if sign == "#":
            self._fail("a comment begins with // or /*; # is not known in JSON")
        if sign == "/":
            self._fail("a single / stands here; a comment begins with // or /*")
        if sign == "'":
            self._fail("a quote ' begins here; JSON has double quotes only")
        if sign in "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb`":
            self._fail(f'{sign} is a quote that JSON does not know; write "')
        if not sign.isprintable():
            name = unicodedata.name(sign, "a control character")
            self._fail(f"an invisible character stands here: U+{ord(sign):04X} ({name})")
        self._fail(usual)

    def _fail_at_end(self) -> NoReturn:
        if not self._open:
            self._fail("the text ends before a value")
        start, _ = self._open[-1]
        bracket = self._text[start]
        self._fail(
            f"the text ends, but the {_KINDS[bracket]} that begins in line {self._line(start)} "
            f"is not closed; {_CLOSING[bracket]} is missing"
        )

    # -- values

    def _value(self) -> None:
        sign = self._sign()
        if sign and sign in "{[":
            self._begin(sign)
        elif sign == '"':
            self._string()
        elif sign and (sign in "-+." or sign.isdigit()):
            self._number()
        elif sign and sign in ",]}:":
            what = "a value is missing before" if sign != ":" else "a value cannot begin with"
            self._fail(f"{what} {sign}")
        else:
            self._name()

    def _name(self) -> None:
        found = _WORD.match(self._text, self._at)
        word = found[0] if found else ""
        if word in _CONSTANTS:
            self._at += len(word)
            return
        if word in _OTHER_NAMES:
            self._fail(f"JSON writes {word} as {_OTHER_NAMES[word]}")
        if word in ("NaN", "Infinity"):
            self._fail(f"{word} is not a value of JSON")
        if word and word[0].isalpha():
            # The text may be a secret that lacks its quotes, so it is not in the message.
            self._fail("a text begins here, and needs double quotes")
        self._fail_at_sign("a value is expected here")

    def _number(self) -> None:
        found = _NUMBER.match(self._text, self._at)
        word = _WORD.match(self._text, self._at)
        assert word is not None  # it begins with such a sign
        if found is not None and found[0] == word[0]:
            self._at = found.end()
            return
        shown = word[0][:40]
        if re.match(r"-?0[0-9]", shown):
            self._fail("this number begins with 0; leave that out, or use double quotes")
        if shown.startswith("+"):
            self._fail("this number begins with +; leave that out")
        if shown.lower().startswith("0x"):
            self._fail("JSON has decimal numbers only, and this is not one")
        self._fail("this is not a number as JSON writes them; a text needs double quotes")

    def _string(self) -> str:
        start = self._at
        found = _STRING.match(self._text, start)
        if found is None:
            self._fail_in_string(start)
        self._at = found.end()
        return found[0]

    def _fail_in_string(self, start: int) -> NoReturn:
        inside = _INSIDE.match(self._text, start)
        assert inside is not None  # it begins with a quote
        self._at = inside.end()
        sign = self._sign()
        if not sign:
            self._fail("the text ends within a string, which begins here", start)
        if sign in "\r\n":
            self._fail('a string begins here, and its line ends before the closing "', start)
        if sign == "\\":
            if self._text[self._at + 1 : self._at + 2] == "u":
                self._fail(r"four hexadecimal digits are expected after \u")
            shown = ascii(self._text[self._at + 1 : self._at + 2])[1:-1]
            self._fail(rf"\{shown} is unknown in a string; a backslash itself is written \\")
        if sign == "\t":
            self._fail(r"a tab stands in a string; write \t")
        self._fail(
            f"a control character stands in a string; write \\u{ord(sign):04x}",
        )

    # -- objects and lists

    def _begin(self, bracket: str) -> None:
        if len(self._open) == MOST_LEVELS:
            self._fail(f"values are nested more than {MOST_LEVELS} levels deep")
        self._open.append((self._at, {}))
        self._at += 1
        self._skip()
        if self._sign() == _CLOSING[bracket]:
            self._at += 1
            self._open.pop()
        elif self._sign() == ",":
            self._fail(f"a comma stands before the first value of the {_KINDS[bracket]}")
        else:
            self._next()

    def _after_value(self, end: int) -> None:
        """Check what follows a value that ends at a place."""
        start, _ = self._open[-1]
        bracket = self._text[start]
        sign = self._sign()
        if sign == _CLOSING[bracket]:
            self._at += 1
            self._open.pop()
        elif sign == ",":
            comma = self._at
            self._at += 1
            self._skip()
            if self._sign() == ",":
                self._fail("two commas stand here, without a value between them", comma)
            if self._sign() == _CLOSING[bracket]:
                return  # a trailing comma
            self._next()
        elif sign in ("]", "}"):
            self._fail(
                f"{sign} stands here, but the {_KINDS[bracket]} that begins in line "
                f"{self._line(start)} is closed by {_CLOSING[bracket]}"
            )
        elif sign == ":":
            self._fail(": stands here, where a comma is expected")
        else:
            what = "members" if bracket == "{" else "items"
            if sign == '"' or sign.isalnum() or sign in ("{", "[", "-"):
                self._fail(f"a comma is missing here, between two {what}", end)
            self._fail_at_sign(f"a comma is expected here, between two {what}")

    def _next(self) -> None:
        """Check a member or an item."""
        start, keys = self._open[-1]
        if self._text[start] == "[":
            self._value()
            return
        at = self._at
        self._key(keys)
        self._skip()
        if self._sign() != ":":
            if self._sign() == "=":
                self._fail("= stands here; JSON has : between a key and its value")
            self._at = at if self._sign() in (",", "}") else self._at
            self._fail_at_sign("a colon is missing between a key and its value")
        self._at += 1
        self._skip()
        self._value()

    def _key(self, keys: dict[str, int]) -> None:
        start = self._at
        sign = self._sign()
        if sign != '"':
            found = _WORD.match(self._text, start)
            if found is not None and (sign.isalnum() or sign in "_$"):
                self._fail(f"the key {found[0][:40]!r} needs double quotes")
            if sign in ("{", "["):
                self._fail(f'{sign} stands here, where a key in double quotes is expected ("name")')
            if sign == "]":
                self._after_value(start)
            self._fail_at_sign('a key in double quotes is expected here ("name")')
        key = json.loads(self._string())
        if key in keys:
            self._fail(
                f"the key {key[:80]!r} appears twice in this object, first in line "
                f"{self._line(keys[key])}; keep one of them",
                start,
            )
        keys[key] = start


# -- the document


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
        scan = scan_json(text, explain_fault)
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
            return join_edits(
                self.text,
                [
                    self.remove((*keys, *change.keys))
                    if change.value is ABSENT
                    else self.set((*keys, *change.keys), change.value)
                    for change in changes
                ],
            )
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
