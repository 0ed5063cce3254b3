"""The bytes of a text file, decoded so that they can be given back as they were."""

import codecs
from typing import Final, NamedTuple

from accord_tools.hosts.definition import HostsError

_MOST_BYTES: Final = 64 * 1024 * 1024
_OTHERS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class TextFile(NamedTuple):
    """The text of a file, with the line ends that it has.

    Attributes:
        text: without the byte order mark.
        has_mark: whether the file begins with a byte order mark.
    """

    text: str
    has_mark: bool = False

    def encode(self, text: str) -> bytes:
        """Return the bytes of a changed text, with the mark if the file has one.

        Raises:
            HostsError: it has half of a surrogate pair, which UTF-8 cannot express.
        """
        try:
            written = text.encode()
        except UnicodeEncodeError as error:
            sign = ord(text[error.start])
            raise HostsError(
                f"the character U+{sign:04X} is half of a pair, which a file cannot have"
            ) from None
        return codecs.BOM_UTF8 + written if self.has_mark else written


def read_text_file(data: bytes) -> TextFile:
    """Return the text of a file.

    Raises:
        HostsError: it is not UTF-8; says at which byte.
    """
    if len(data) > _MOST_BYTES:
        raise HostsError(f"the file has {len(data)} bytes; a configuration is never that large")
    for mark, name in _OTHERS.items():
        if data.startswith(mark):
            raise HostsError(f"the file is {name} (byte 0 begins its mark); save it as UTF-8")
    has_mark = data.startswith(codecs.BOM_UTF8)
    start = len(codecs.BOM_UTF8) if has_mark else 0
    try:
        text = data[start:].decode()
    except UnicodeDecodeError as error:
        raise HostsError(
            f"byte {start + error.start} is not UTF-8 (0x{error.object[error.start]:02x}); "
            "save the file as UTF-8"
        ) from None
    if (at := data.find(b"\0")) >= 0:
        raise HostsError(f"byte {at} is 0, as in UTF-16 or a binary file; save the file as UTF-8")
    return TextFile(text, has_mark)
