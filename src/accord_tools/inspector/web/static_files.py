"""The files of the page: found once, read when they are asked for, compressed, with digests.

A request is looked up in a dictionary of paths. It never reaches the file system by itself.
"""

import gzip
import hashlib
import re
from base64 import b64encode
from pathlib import Path
from typing import Final, NamedTuple

from accord_tools import reports

_FOLDER: Final = Path(__file__).parent.parent / "static"
# The style sheet that reports have too.
_COMMON: Final = Path(reports.__file__).parent / "assets" / "common.css"
_INDEX: Final = "/index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_OTHER: Final = "text/plain; charset=utf-8"
_INLINE: Final = re.compile(rb"<script[^>]*>([^<]+)</script>")
# Python's default takes three times as long, for one percent.
_LEVEL: Final = 6
_POLICY: Final = (
    "default-src 'none'; script-src 'self'{digests}; style-src 'self'; img-src 'self' data: blob:; "
    "media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


class StaticFile(NamedTuple):
    """A file of the page.

    Attributes:
        body: its content.
        compressed: the same with gzip.
        media_type: what it is.
        tag: a digest of the content, as the value of `ETag`.
    """

    body: bytes
    compressed: bytes
    media_type: str
    tag: str


class StaticFiles:
    """The files of the page by path."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        found = sorted(each for each in folder.rglob("*") if each.is_file())
        self.paths = {f"/{each.relative_to(folder).as_posix()}": each for each in found}
        self.paths["/common.css"] = _COMMON
        if _INDEX in self.paths:
            self.paths["/"] = self.paths[_INDEX]
        self._read: dict[str, tuple[tuple[int, int], StaticFile]] = {}
        self._policy = "", ""

    def find(self, path: str) -> StaticFile | None:
        """Return a file of the page; one that has changed is read again."""
        file = self.paths.get(path)
        if file is None:
            return None
        state = file.stat()
        version = (state.st_mtime_ns, state.st_size)
        kept = self._read.get(path)
        if kept is None or kept[0] != version:
            kept = self._read[path] = version, _read_file(file)
        return kept[1]

    @property
    def policy(self) -> str:
        """The content security policy, with the digests of what stands in the page itself."""
        index = self.find(_INDEX)
        assert index is not None, "the page was not installed with accord"
        if self._policy[0] != index.tag:
            self._policy = index.tag, _make_policy(index.body)
        return self._policy[1]


def _make_policy(page: bytes) -> str:
    digests = [b64encode(hashlib.sha256(each).digest()).decode() for each in _INLINE.findall(page)]
    return _POLICY.format(digests="".join(f" 'sha256-{each}'" for each in digests))


def _read_file(file: Path) -> StaticFile:
    body = file.read_bytes()
    return StaticFile(
        body,
        gzip.compress(body, _LEVEL, mtime=0),
        _TYPES.get(file.suffix, _OTHER),
        f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    )
