"""Characters that people do not see and models read: where they are, and what they spell.

Emoji, flags, and the scripts that need joiners and marks use some of these characters honestly;
there they are not reported. Letters that look like those of another script are here as well.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

# Letters and marks of no width, fillers that look like nothing, and marks for the layout.
_NO_WIDTH: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u206a-\u206f"
    "\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a"
)
_DIRECTIONS: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS: Final = "\U000e0000-\U000e007f"
_CONTROLS: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_SUSPICIOUS: Final = re.compile(f"[{_NO_WIDTH}{_DIRECTIONS}{_SELECTORS}{_TAGS}{_CONTROLS}]")
_RUN: Final = re.compile(f"[{_SELECTORS}{_TAGS}]+")
# What follows so many blanks is out of sight; tables in texts have fewer.
_BLANKS: Final = re.compile(r"(?<!\s)\s{120,}+(?=\S)")

_ZWNJ, _ZWJ = "\u200c", "\u200d"
_MARKS: Final = "\u061c\u200e\u200f"
_BLACK_FLAG: Final = "\U0001f3f4"
# The flags of England, Scotland and Wales are the only ones that are spelt by tags.
_SPELT_FLAGS: Final = frozenset({"gbeng", "gbsct", "gbwls"})
_CANCEL_TAG: Final = "\U000e007f"
_KEYCAPS: Final = "0123456789#*"
# Scripts in which joiners decide how letters are connected: Arabic to Mongolian, and their forms.
_JOINING: Final = re.compile("[\u0600-\u109f\u1780-\u18af\ua840-\ua8ff\ufb50-\ufdff\ufe70-\ufefc]")
_IDEOGRAPH: Final = re.compile("[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_MONGOLIAN: Final = re.compile("[\u1800-\u18af]")
_NAMES: Final = {
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
    "\x00": "NULL",
    "\x08": "BACKSPACE",
    "\x9b": "CONTROL SEQUENCE INTRODUCER",
    "\u2028": "LINE SEPARATOR",
    "\u2029": "PARAGRAPH SEPARATOR",
}
_SHOWN: Final = 3
_MOST: Final = 1_000
_SPELT_MOST: Final = 80


class HiddenCharacter(NamedTuple):
    """A character that is not visible, and its place in the text, counted from 1."""

    character: str
    place: int

    def __str__(self) -> str:
        return f"{name_character(self.character)} at character {self.place}"


def name_character(character: str) -> str:
    r"""Return the code point and the name of a character.

    >>> name_character("\u200b")
    'U+200B ZERO WIDTH SPACE'
    """
    code = ord(character)
    name = _NAMES.get(character) or unicodedata.name(character, "")
    if not name:
        is_half = 0xD800 <= code <= 0xDFFF
        name = "half of a surrogate pair" if is_half else "a control character"
        if 0xE0000 <= code <= 0xE007F:
            name = "a tag character"
    return f"U+{code:04X} {name}"


def find_hidden(text: str, *, is_name: bool = False) -> list[HiddenCharacter]:
    """Return the characters of a text that people do not see, except those of honest writing.

    Args:
        text: any text.
        is_name: whether programs compare it; nothing invisible belongs into a name.
    """
    if text.isascii() and text.isprintable():
        return []
    places = (found.start() for found in _SUSPICIOUS.finditer(text))
    if not is_name:
        may_turn = any(each in text for each in _MARKS) and _has_right_to_left(text)
        places = (at for at in places if not _is_honest(text, at, may_turn=may_turn))
    return [HiddenCharacter(text[at], at + 1) for at in islice(places, _MOST)]


def find_blanks(text: str) -> int | None:
    """Return the place of a run of blanks that moves the rest of a text out of sight."""
    found = _BLANKS.search(text)
    return None if found is None else found.start() + 1


def describe_hidden(found: list[HiddenCharacter], text: str) -> str:
    """Return which hidden characters a text has, where, and what they spell."""
    shown = ", ".join(map(str, found[:_SHOWN]))
    more = len(found) - _SHOWN
    rest = f" and {more} more" if more > 0 else ""
    if len(found) == _MOST:
        rest = f" and over {more} more"
    spelt = _spell(text)
    return f"{shown}{rest}" + (f"; they spell {spelt!r}" if spelt else "")


def _is_honest(text: str, at: int, *, may_turn: bool) -> bool:
    """Return whether a character is needed where it is.

    `may_turn` says whether the text has letters that are written from right to left.
    """
    character = text[at]
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if character in (_ZWJ, _ZWNJ):
        if _JOINING.match(before):
            return _SUSPICIOUS.match(after) is None
        return character == _ZWJ and _is_emoji(_base(text, at)) and _is_emoji(after)
    if character in _MARKS:
        return may_turn and character not in (before, after)
    if "\ufe00" <= character <= "\ufe0f":
        return _may_vary(before, character)
    if character >= "\U000e0100":
        return _IDEOGRAPH.match(before) is not None
    if character >= "\U000e0000":
        return _is_in_flag(text, at)
    if character == "\u2800":
        # The blank pattern of Braille, within Braille.
        return any("\u2801" <= each <= "\u28ff" for each in (before, after))
    if "\u180b" <= character <= "\u180f":
        return _MONGOLIAN.match(before) is not None
    return character == "\ufeff" and at == 0  # a byte order mark


def _base(text: str, at: int) -> str:
    """Return the character before a joiner, without a selector or a tone of skin."""
    at -= 1
    while at > 0 and (text[at] == "\ufe0f" or "\U0001f3fb" <= text[at] <= "\U0001f3ff"):
        at -= 1
    return text[at] if at >= 0 else ""


def _is_emoji(character: str) -> bool:
    # Symbols, and the few that are not: hearts, arrows, signs.
    return bool(character) and (
        unicodedata.category(character) in ("So", "Sk", "Sm", "Po") and character > "\u00ff"
    )


def _may_vary(before: str, selector: str) -> bool:
    """Return whether a character has variants: emoji, symbols, digits of keycaps, ideographs."""
    if not before:
        return False
    if before in _KEYCAPS:
        return selector in "\ufe0e\ufe0f"
    return (
        not before.isascii()
        and _SUSPICIOUS.match(before) is None
        and (
            unicodedata.category(before) in ("So", "Sm", "Sk", "Po", "Pd", "No", "Sc")
            or "\u2100" <= before <= "\u214f"  # letters that are symbols, such as the one for info
        )
    ) or _IDEOGRAPH.match(before) is not None


def _has_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(each) in ("R", "AL") for each in text)


def _is_in_flag(text: str, at: int) -> bool:
    """Return whether a tag character is a part of a flag that is spelt by tags."""
    start = at
    while start > 0 and "\U000e0000" <= text[start - 1] <= "\U000e007f" and at - start < 8:
        start -= 1
    found = _RUN.match(text, start, start + 9)
    if start == 0 or text[start - 1] != _BLACK_FLAG or found is None:
        return False
    return found[0].endswith(_CANCEL_TAG) and _spell_tags(found[0][:-1]) in _SPELT_FLAGS


# -- hidden messages


def _spell(text: str) -> str:
    """Return the ASCII text that tags, or selectors as bytes, spell."""
    spelt = "".join(_letters_of(text))
    return spelt[:_SPELT_MOST] + ("..." if len(spelt) > _SPELT_MOST else "")


def _letters_of(text: str) -> Iterator[str]:
    for run in _RUN.finditer(text):
        tags = _spell_tags(run[0])
        if tags and not (len(tags) == 5 and tags in _SPELT_FLAGS):
            yield tags
        elif len(run[0]) > 1:
            # Selectors count bytes: the first sixteen, then the others.
            data = [
                ord(each) - 0xFE00 if each <= "\ufe0f" else ord(each) - 0xE0100 + 16
                for each in run[0]
                if each <= "\ufe0f" or each >= "\U000e0100"
            ]
            yield "".join(chr(each) for each in data if 32 <= each < 127)


def _spell_tags(tags: str) -> str:
    return "".join(
        chr(ord(each) - 0xE0000) for each in tags if "\U000e0020" <= each <= "\U000e007e"
    )


# -- letters of other scripts that look like ASCII letters


# The letters of other scripts that are drawn like an ASCII letter in usual fonts. Full-width and
# mathematical letters are not here: their normal form is the ASCII letter.
_DRAWN_LIKE: Final = {
    "a": "\u0251\u03b1\u0430\u1d00\u237a",
    "b": "\u0184\u042c\u0432\u0412\u0392\u0299\u13cf\u15af",
    "c": "\u0441\u0421\u03f2\u03f9\u1d04\u13df\u217d\u2ca5\u2ca4",
    "d": "\u0501\u13e7\u146f\u217e\u1d05\u0257",
    "e": "\u0435\u0415\u03b5\u0395\u0454\u0404\u212e\u1d07\u13ac\u04bd",
    "f": "\u0192\u03dd\u03dc\u0584\u15b4\ua730",
    "g": "\u0261\u0581\u050d\u050c\u13c0\u0262",
    "h": "\u04bb\u04ba\u041d\u043d\u0397\u0570\u029c\u13bb",
    "i": "\u0131\u0456\u0406\u03b9\u0399\u04cf\u026a\u13a5\u2170\u0269",
    "j": "\u0458\u0408\u03f3\u1d0a\u13ab",
    "k": "\u043a\u041a\u03ba\u039a\u1d0b\u13e6",
    "l": "\u04c0\u0196\u2113\u01c0\u05c0\u029f\u13de\u217c\u0621",
    "m": "\u043c\u041c\u039c\u03fa\u1d0d\u13b7\u217f",
    "n": "\u0578\u057c\u039d\u0274\u03b7\u0273",
    "o": "\u043e\u041e\u03bf\u039f\u0585\u0555\u1d0f\u0d20\u06c1\u3007\u2c9f\u2c9e\u0665\u00f8",
    "p": "\u0440\u0420\u03c1\u03a1\u1d18\u13e2\u2ca3\u2ca2",
    "q": "\u051b\u051a\u0563\u0566",
    "r": "\u0433\u1d26\u0280\u13a1\u027c",
    "s": "\u0455\u0405\u057d\ua731\u13da\u01bd",
    "t": "\u0442\u0422\u03c4\u03a4\u1d1b\u13a2",
    "u": "\u057d\u03c5\u1d1c\u028b\u0446\u054d",
    "v": "\u03bd\u0475\u0474\u1d20\u13d9\u2174\u05d8",
    "w": "\u0461\u0460\u051d\u051c\u1d21\u13b3\u03c9\u0561",
    "x": "\u0445\u0425\u03c7\u03a7\u2179\u1541\u166e",
    "y": "\u0443\u0423\u04af\u04ae\u03b3\u03a5\u028f\u0263\u13bd",
    "z": "\u1d22\u0396\u13c3\u01b6",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u02d7\u06d4\u2043",
    "_": "\u02cd\uff3f\ufe4d\u2017",
    ".": "\u2024\u0660\u06f0\u3002",
}
_LETTERS: Final = {ord(drawn): letter for letter, alike in _DRAWN_LIKE.items() for drawn in alike}
# Within ASCII: these are drawn alike, or nearly.
_NEAR: Final = str.maketrans({"I": "l", "1": "l", "|": "l", "0": "o", "5": "s"})
_SEPARATORS: Final = re.compile(r"[\W_]+")


@lru_cache(4096)
def plain_letters(name: str) -> str:
    r"""Return a name in ASCII letters, as far as others look like them.

    >>> plain_letters("r\u0435ad_f\uff49le")
    'read_file'
    """
    if name.isascii():
        return name
    normal = unicodedata.normalize("NFKD", name.translate(_LETTERS)).translate(_LETTERS)
    return "".join(
        each for each in normal if unicodedata.category(each) not in ("Mn", "Me", "Cf", "Cc")
    )


def fold_style(name: str) -> str:
    """Return a name without case and separators.

    >>> fold_style("readFile") == fold_style("read-file")
    True
    """
    return _SEPARATORS.sub("", name).casefold()


def fold_look(name: str) -> str:
    """Return what a name looks like: equal results are hard to tell apart.

    >>> fold_look("1ist") == fold_look("Iist") == fold_look("list")
    True
    """
    return fold_style(plain_letters(name).translate(_NEAR))


def foreign_letters(name: str) -> list[tuple[str, str]]:
    """Return the letters of a name that look like an ASCII letter, each with that letter."""
    return [
        (each, plain)
        for each in dict.fromkeys(name)
        if not each.isascii() and len(plain := plain_letters(each)) == 1 and plain.isascii()
    ]
