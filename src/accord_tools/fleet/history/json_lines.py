"""A history as a file of JSON lines, for runs without a disk of their own.

Each line is a part or a run, see `packing`. A run follows its parts, so that a file that was cut
off has whole runs only. Reports are left out: they are most of the size, and such a file travels.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.history.packing import PackedRun, TravellingPart

ENDING: Final = ".jsonl"
_FORMAT: Final = 1


class HistoryHeader(msgspec.Struct, frozen=True, tag="accord fleet history", tag_field="kind"):
    """The first line of the file."""

    format: int


HistoryLine: TypeAlias = HistoryHeader | TravellingPart | PackedRun
"""What a line may be."""

_DECODER: Final[msgspec.json.Decoder[HistoryLine]] = msgspec.json.Decoder(HistoryLine)


class HistoryLines:
    """A file of JSON lines that is read as a whole, and appended to.

    Args:
        path: the file; a missing one is made with the first run.

    Attributes:
        notes: remarks on the file, such as a last line that was cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []

    def read(self) -> Iterator[HistoryLine]:
        """Yield the parts and runs of the file.

        Raises:
            FleetError: it cannot be read, is not a history, or was written by a newer accord.
        """
        try:
            lines = self.path.read_bytes().split(b"\n") if self.path.exists() else []
        except OSError as error:
            raise self._error(error.strerror or str(error), "name another file") from None
        is_known = False
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found = _DECODER.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                if not is_known and not line.startswith(b'{"kind":"'):
                    raise self._error(
                        f"line {number} is not one of a history ({error})",
                        "name another file with --history",
                    ) from None
                self.notes.append(
                    f"{self.path}:{number}: this line was cut off or damaged, and is left out"
                )
                continue
            if isinstance(found, HistoryHeader):
                self._demand_format(found)
                is_known = True
            elif is_known:
                yield found
            else:
                raise self._error("has no first line that says its format", "restore it")

    def _demand_format(self, header: HistoryHeader) -> None:
        if header.format > _FORMAT:
            raise self._error(
                f"was written by a newer accord (format {header.format}, this one knows up to "
                f"{_FORMAT})",
                "upgrade accord, or name another file with --history",
            )

    def append(self, lines: Iterable[HistoryLine]) -> None:
        """Add lines at the end, in one write.

        Raises:
            FleetError: the file cannot be written; says why.
        """
        try:
            with self.path.open("ab+") as file:
                size = file.seek(0, os.SEEK_END)
                text = _encode_lines(lines, with_header=size == 0)
                file.seek(max(size - 1, 0))
                if size and file.read(1) != b"\n":
                    text = b"\n" + text  # the last line was cut off
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._error(
                f"cannot be written: {error.strerror or error}",
                "change its permissions, or name another file with --history",
            ) from None

    def replace(self, lines: Iterable[HistoryLine]) -> None:
        """Replace the whole file at once.

        Raises:
            FleetError: the file cannot be written; says why. It is left as it is.
        """
        name = ""
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(_encode_lines(lines, with_header=True))
                file.flush()
                os.fsync(file.fileno())
            with suppress(OSError):
                os.chmod(name, self.path.stat().st_mode & 0o777)
            os.replace(name, self.path)
        except OSError as error:
            if name:
                with suppress(OSError):
                    os.unlink(name)
            raise self._error(
                f"cannot be written: {error.strerror or error}", "change its permissions"
            ) from None

    def _error(self, cause: str, advice: str) -> FleetError:
        return FleetError(f"history {self.path}: {cause}; {advice}")


def _encode_lines(lines: Iterable[HistoryLine], *, with_header: bool) -> bytes:
    header: list[HistoryLine] = [HistoryHeader(_FORMAT)] if with_header else []
    encode = msgspec.json.Encoder().encode
    return b"".join(encode(each) + b"\n" for each in (*header, *lines))
