"""What is wrong with a text that should be JSON, said so that a person can mend it."""

import re
import unicodedata
from json import JSONDecodeError
from typing import Final

from accord_tools.hosts.documents.document import UnreadableDocument, find_place

_WORD: Final = r"[^\s,:\[\]{}\"'/=]+"
_BRACKET: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|([{}\[\]])', re.DOTALL)
_CONFLICT: Final = re.compile(r"<{7} |={7}$|>{7} ", re.MULTILINE)
_CLOSING: Final = {"{": "}", "[": "]"}
_KINDS: Final = {"{": "object", "[": "list"}
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
# What begins like a number, and what is wrong with it.
_NUMBERS: Final = (
    (r"-?0[0-9]", "this number begins with 0; leave that out, or use double quotes"),
    (r"\+", "this number begins with +; leave that out"),
    (r"0[xX]", "JSON has decimal numbers only, and this is not one"),
    (r"[-.0-9]", "this is not a number as JSON writes them; a text needs double quotes"),
)
_SIGNS: Final = {
    "#": "a comment begins with // or /*; # is not known in JSON",
    "/": "a single / stands here; a comment begins with // or /*",
    "'": "a quote ' begins here; JSON has double quotes only",
}
_QUOTES: Final = "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb`"


def fault_at(text: str, at: int, message: str) -> UnreadableDocument:
    """Return the error for a place."""
    return UnreadableDocument(message, find_place(text, at))


def explain_fault(text: str, plain: str, error: JSONDecodeError) -> UnreadableDocument:
    """Return what is wrong with a text, with its place.

    Args:
        text: of the file.
        plain: the same with blanks in place of comments.
        error: what the parser of Python says about it.
    """
    at, said = error.pos, error.msg
    if said.startswith("Unterminated"):
        return fault_at(text, at, "the text ends within a string, which begins here")
    if "control character" in said:
        return _explain_control(text, at)
    if "escape" in said:
        return _explain_escape(text, text.rindex("\\", 0, at + 1))
    if not said.startswith(("Expecting", "Extra", "Illegal", "Unexpected")) and said:
        return fault_at(text, at, said)
    if plain.startswith("/*", at):
        return fault_at(text, at, "a comment begins here with /* and never ends")
    return _explain_sign(text, plain, at, said)


def _explain_control(text: str, at: int) -> UnreadableDocument:
    sign = text[at]
    if sign in "\r\n":
        start = [each.start() for each in re.finditer(r'(?<!\\)"', text[:at])][-1]
        message = 'a string begins here, and its line ends before the closing "'
        return fault_at(text, start, message)
    if sign == "\t":
        return fault_at(text, at, r"a tab stands in a string; write \t")
    message = f"a control character stands in a string; write \\u{ord(sign):04x}"
    return fault_at(text, at, message)


def _explain_escape(text: str, at: int) -> UnreadableDocument:
    shown = ascii(text[at + 1 : at + 2])[1:-1]
    message = rf"\{shown} is unknown in a string; a backslash itself is written \\"
    if shown == "u":
        message = r"four hexadecimal digits are expected after \u"
    return fault_at(text, at, message)


def _explain_sign(text: str, plain: str, at: int, said: str) -> UnreadableDocument:
    """Return what is wrong about the sign at a place, where the parser expects another one."""
    before = plain[:at].rstrip(" \t\r\n")
    sign, last = plain[at : at + 1], before[-1:]
    start = _open_bracket(plain, at)
    if not sign:
        return fault_at(text, at, _explain_end(text, start))
    if "Extra data" in said:
        usual = "the document ends before this; only one value may stand in a file"
        if sign in "]}":
            usual = f"{sign} closes nothing: there is one bracket too many"
        return fault_at(text, at, _name_sign(plain, at) or usual)
    bracket = "" if start is None else plain[start]
    if sign == "," and last in ("{", "[", ","):
        if last == ",":
            message = "two commas stand here, without a value between them"
            return fault_at(text, len(before) - 1, message)
        return fault_at(text, at, f"a comma stands before the first value of the {_KINDS[last]}")
    if sign in "]}" and sign != _CLOSING.get(bracket) and last != ":" and start is not None:
        message = (
            f"{sign} stands here, but the {_KINDS[bracket]} that begins in line "
            f"{find_place(text, start).line} is closed by {_CLOSING[bracket]}"
        )
        return fault_at(text, at, message)
    if "':' delimiter" in said:
        if sign == "=":
            return fault_at(text, at, "= stands here; JSON has : between a key and its value")
        message = _name_sign(plain, at) or "a colon is missing between a key and its value"
        if sign in ",}":
            at = [each.start() for each in re.finditer(r'(?<!\\)"', before[:-1])][-1]
        return fault_at(text, at, message)
    if "property name" in said:
        return fault_at(text, at, _explain_key(plain, at))
    if "',' delimiter" in said:
        return _explain_comma(text, plain, at, len(before), bracket)
    return _explain_value(text, plain, at)


def _open_bracket(plain: str, at: int) -> int | None:
    """Return where the innermost bracket is that is open at a place."""
    opened: list[int] = []
    for found in _BRACKET.finditer(plain, 0, at):
        if found[1] in ("{", "["):
            opened.append(found.start())
        elif found[1] and opened:
            opened.pop()
    return opened[-1] if opened else None


def _explain_end(text: str, start: int | None) -> str:
    if start is None:
        return "the text ends before a value"
    bracket = text[start]
    return (
        f"the text ends, but the {_KINDS[bracket]} that begins in line "
        f"{find_place(text, start).line} is not closed; {_CLOSING[bracket]} is missing"
    )


def _name_sign(plain: str, at: int) -> str:
    """Return a name for what often stands where it must not; empty if it is something else."""
    sign = plain[at]
    if _CONFLICT.match(plain, at):
        return "a conflict of git has not been resolved here"
    if sign in _QUOTES:
        return f'{sign} is a quote that JSON does not know; write "'
    if not sign.isprintable():
        name = unicodedata.name(sign, "a control character")
        return f"an invisible character stands here: U+{ord(sign):04X} ({name})"
    return _SIGNS.get(sign, "")


def _explain_key(plain: str, at: int) -> str:
    sign = plain[at]
    found = re.compile(_WORD).match(plain, at)
    if found is not None and (sign.isalnum() or sign in "_$"):
        return f"the key {found[0][:40]!r} needs double quotes"
    if sign in "{[":
        return f'{sign} stands here, where a key in double quotes is expected ("name")'
    return _name_sign(plain, at) or 'a key in double quotes is expected here ("name")'


def _explain_comma(text: str, plain: str, at: int, end: int, bracket: str) -> UnreadableDocument:
    """Return what is wrong about a sign behind a value, which ends at another place."""
    sign = plain[at]
    what = "members" if bracket == "{" else "items"
    if sign == ":":
        return fault_at(text, at, ": stands here, where a comma is expected")
    word = re.search(rf"{_WORD}\Z", plain[:at])
    if word is not None and end == at and re.match(_WORD, sign) and sign not in _QUOTES:
        return _explain_value(text, plain, word.start())
    if sign.isalnum() or sign in '"{[-':
        return fault_at(text, end, f"a comma is missing here, between two {what}")
    message = _name_sign(plain, at) or f"a comma is expected here, between two {what}"
    return fault_at(text, at, message)


def _explain_value(text: str, plain: str, at: int) -> UnreadableDocument:
    sign = plain[at]
    found = re.compile(_WORD).match(plain, at)
    word = found[0] if found is not None else ""
    if sign in ",]}:":
        what = "a value is missing before" if sign != ":" else "a value cannot begin with"
        return fault_at(text, at, f"{what} {sign}")
    for pattern, message in _NUMBERS:
        if re.match(pattern, word):
            return fault_at(text, at, message)
    if word in _OTHER_NAMES:
        return fault_at(text, at, f"JSON writes {word} as {_OTHER_NAMES[word]}")
    if word[:1].isalpha():
        # The text may be a secret that lacks its quotes, so it is not in the message.
        return fault_at(text, at, "a text begins here, and needs double quotes")
    return fault_at(text, at, _name_sign(plain, at) or "a value is expected here")
