"""Names that look alike: letters of other scripts that look like ASCII letters."""

import re
import unicodedata
from functools import lru_cache
from typing import Final

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
