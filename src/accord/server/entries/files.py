"""Files and folders as resources; no URI leads out of the folder.

First the text of a path is checked. Then its real path must be below the root. Then the file is
opened from the root downwards without following links, so that a change in between cannot lead
elsewhere. A refused path gets the error of a file that does not exist. Hard links are ordinary
files.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Final, Unpack
from urllib.parse import quote, unquote

import msgspec

from accord.errors import InternalError, RegistrationError
from accord.protocol import uri_template
from accord.server.access import parse_scopes, parse_tags
from accord.server.entries.registry import Resources
from accord.server.entries.resources import (
    ResourceDetails,
    ResourceEntry,
    TemplateEntry,
    build_resource,
    read_hints,
)
from accord.server.media import BINARY, PLAIN, encode_base64, guess_mime_type, is_textual, not_found
from accord.server.schema import signature
from accord.server.settings import check_details
from accord.types import Resource, ResourceContents

# As base64 this just fits into the 16 MiB that peers accept as one message.
MAX_BYTES: Final = 10 * 1024 * 1024
MAX_FILES: Final = 1000

_ON_WINDOWS: Final = os.name == "nt"
_WALKS: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
# Opening must not wait for the other end of a pipe, nor take over a terminal.
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)
# A path that is encoded more often hides something.
_MOST_DECODINGS: Final = 4
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_DEVICE: Final = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9¹²³])(?:[ .:].*)?", re.IGNORECASE
)


def split_safe_path(path: str, *, windows: bool = _ON_WINDOWS) -> list[str] | None:
    """Split a path from a URI into names; None if it could lead out of its folder.

    Text that is still percent-encoded is decoded and checked as well.

    Args:
        path: the path of the URI, decoded once, with slashes.
        windows: whether names that are special on Windows are refused.
    """
    names = path.split("/")
    decoded = path
    for _ in range(_MOST_DECODINGS):
        if "\\" in decoded or _CONTROL.search(decoded) or decoded.count("/") != len(names) - 1:
            return None
        if not all(_is_plain(name, windows=windows) for name in decoded.split("/")):
            return None
        again = unquote(decoded)
        if again == decoded:
            return names
        decoded = again
    return None


def _is_plain(name: str, *, windows: bool) -> bool:
    if not name.strip(". "):  # empty, ".", "..", or cut to one of them by Windows
        return False
    if not windows:
        return True
    return name[-1] not in ". " and ":" not in name and _DEVICE.fullmatch(name) is None


class _Root(msgspec.Struct, frozen=True):
    """A folder, and the only way to open files below it."""

    path: str
    hidden: bool

    def locate(self, names: list[str]) -> list[str] | None:
        """Return the names of the real path, without links; None if it is outside."""
        try:
            real = os.path.realpath(os.path.join(self.path, *names), strict=True)
            inside = os.path.commonpath([self.path, real]) == self.path
        except (OSError, ValueError):
            return None
        if not inside or real == self.path:
            return None
        found = os.path.relpath(real, self.path).split(os.sep)
        if not self.hidden and any(name.startswith(".") for name in (*names, *found)):
            return None
        return found

    def open(self, names: list[str], *, walk: bool = _WALKS) -> int | None:
        """Open a regular file by names without links; None if that fails."""
        try:
            file = self._walk(names) if walk else self._open_and_check(names)
        except OSError:
            return None
        if file is not None and not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            return None
        return file

    def _walk(self, names: list[str]) -> int:
        """Open folder by folder; a link on the way was put there just now, and fails."""
        folder = os.open(self.path, _FLAGS | os.O_DIRECTORY)
        try:
            for name in names[:-1]:
                # A thread may be stopped at any point, and nothing may be closed twice then.
                above, folder = folder, os.open(name, _FLAGS | os.O_DIRECTORY, dir_fd=folder)
                os.close(above)
            status = os.stat(names[-1], dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):  # opening a device may have an effect
                raise FileNotFoundError(names[-1])
            return os.open(names[-1], _FLAGS, dir_fd=folder)
        finally:
            os.close(folder)

    def _open_and_check(self, names: list[str]) -> int | None:
        """Open by path, then check that the path still leads to the opened file."""
        path = os.path.join(self.path, *names)
        file = os.open(path, _FLAGS)
        try:
            same = os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
            if same and self.locate(names) == names:
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        return None

    def read(
        self, names: list[str] | None, uri: str, mime_type: str | None, max_bytes: int
    ) -> ResourceContents:
        """Read a file: as text if its type is textual, or unknown and the data is UTF-8.

        Raises:
            ResourceNotFound: it does not exist, or it is outside.
            InternalError: it is too large.
        """
        file = None if names is None else self.open(names)
        if file is None:
            raise not_found(uri)
        with open(file, "rb") as stream:
            data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise InternalError(f"resource {uri!r} is larger than {max_bytes} bytes")
        if (mime_type is None or is_textual(mime_type)) and b"\0" not in data:
            with suppress(UnicodeDecodeError):
                return ResourceContents(uri=uri, mime_type=mime_type or PLAIN, text=data.decode())
        return ResourceContents(uri=uri, mime_type=mime_type or BINARY, blob=encode_base64(data))


def _root(path: str | os.PathLike[str], *, hidden: bool) -> _Root:
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        raise RegistrationError(f"folder {os.fspath(path)!r}: {error.strerror}") from None
    if not os.path.isdir(real):
        raise RegistrationError(f"{os.fspath(path)!r} is not a folder")
    return _Root(real, hidden)


class FileResource:
    """One file as a resource.

    The file may be a link, but only to a file in its own folder, or below `root`.

    Args:
        path: the file; it need not exist yet.
        uri: its URI; a file URI by default.
        root: the folder that links may not lead out of.
        max_bytes: larger files are refused.
        details: as for `Server.resource`; the name defaults to that of the file.

    Raises:
        RegistrationError: the path is not that of a file, or it is outside the root.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        uri: str | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
        max_bytes: int = MAX_BYTES,
        **details: Unpack[ResourceDetails],
    ) -> None:
        self.path = Path(path).absolute()
        self.uri = self.path.as_uri() if uri is None else uri
        self.max_bytes = max_bytes
        self.details = check_details("add_file()", details, ResourceDetails)
        self._root = _root(self.path.parent if root is None else root, hidden=True)
        self._names = self._names_below_root()
        if self.path.exists() and not self._is_readable():
            raise RegistrationError(
                f"file {os.fspath(path)!r} is not a regular file below {self._root.path!r}"
            )

    def _names_below_root(self) -> list[str]:
        parent = os.path.realpath(self.path.parent)
        names = os.path.relpath(os.path.join(parent, self.path.name), self._root.path).split(os.sep)
        if self.path.name in ("", "..") or names[0] == "..":
            raise RegistrationError(f"file {str(self.path)!r} is not below {self._root.path!r}")
        return names

    def _is_readable(self) -> bool:
        names = self._root.locate(self._names)
        return names is not None and os.path.isfile(os.path.join(self._root.path, *names))

    def read(self) -> ResourceContents:
        """Read the file.

        Raises:
            ResourceNotFound: the file does not exist, or it is outside the root.
            InternalError: the file is too large.
        """
        names = self._root.locate(self._names)
        mime_type = self.details.get("mime_type") or guess_mime_type(self.path.name)
        return self._root.read(names, self.uri, mime_type, self.max_bytes)

    def entry(self) -> ResourceEntry:
        """Return the entry to register, with the present size."""
        details = ResourceDetails(name=self.path.name)
        if (mime_type := guess_mime_type(self.path.name)) is not None:
            details["mime_type"] = mime_type
        with suppress(OSError):
            details["size"] = self.path.stat().st_size
        details.update(self.details)

        def read() -> ResourceContents:  # without a docstring, which would be listed
            return self.read()

        entry = build_resource(self.uri, read, signature=signature.inspect(read), **details)
        if not isinstance(entry, ResourceEntry):
            raise RegistrationError(f"file {str(self.path)!r}: {self.uri!r} is a template")
        return entry


class DirectoryResource:
    """The files of a folder as resources.

    Args:
        root: the folder.
        uri: a template with the variable `path`; `{+path}` keeps slashes, `{path}` encodes them.
        pattern: which files are offered, such as "*.md"; with a slash it is compared with the whole
            path below the root, where a star spans folders too.
        recursive: whether files in folders below are offered.
        hidden: whether names that begin with a dot are offered.
        max_bytes: larger files are not offered.
        max_files: how many are listed at most; the others can be read all the same.
        details: as for `Server.resource`; the MIME type and the annotations are those of each
            file.

    Raises:
        RegistrationError: the folder does not exist, or the template has other variables.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        uri: str = "files://{+path}",
        *,
        pattern: str = "*",
        recursive: bool = True,
        hidden: bool = False,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
        **details: Unpack[ResourceDetails],
    ) -> None:
        self.uri = uri
        self.pattern = pattern
        self.recursive = recursive
        self.max_bytes = max_bytes
        self.max_files = max_files
        self.details = check_details("add_directory()", details, ResourceDetails)
        self._root = _root(root, hidden=hidden)
        self._published: set[str] = set()
        try:
            self._template = uri_template.parse(uri)
        except ValueError as error:
            raise RegistrationError(f"folder {self._root.path!r}: {uri!r}: {error}") from None
        if self._template.variables != ("path",):
            raise RegistrationError(
                f"folder {self._root.path!r}: {uri!r} must have the one variable 'path'"
            )

    # -- reading

    def read(self, path: str) -> ResourceContents:
        """Read a file below the root.

        Raises:
            ResourceNotFound: the file does not exist, or the path leads out of the root.
            InternalError: the file is too large.
        """
        uri = self._uri_of(path) or self._template.expand({"path": path})
        return self._root.read(self._locate(path), uri, self._mime_type(path), self.max_bytes)

    def _locate(self, path: str) -> list[str] | None:
        names = split_safe_path(path)
        if names is None or not self._is_offered(names):
            return None
        found = self._root.locate(names)
        return found if found is not None and self._is_offered(found) else None

    def _is_offered(self, names: list[str]) -> bool:
        if len(names) > 1 and not self.recursive:
            return False
        return fnmatchcase("/".join(names) if "/" in self.pattern else names[-1], self.pattern)

    def _mime_type(self, path: str) -> str | None:
        return self.details.get("mime_type") or guess_mime_type(path)

    def _uri_of(self, path: str) -> str | None:
        """Return the URI of a path; None if the template has none that leads back to it."""
        with suppress(UnicodeEncodeError):
            for value in (quote(path), path):
                uri = self._template.expand({"path": value})
                if self._template.match(uri) == {"path": path}:
                    return uri
        return None

    # -- listing

    def files(self) -> list[Resource]:
        """List the files that can be read now, folder by folder in order of their names."""
        return list(islice(self._files(), self.max_files))

    def _files(self) -> Iterator[Resource]:
        for path in self._walk():
            names, uri = self._locate(path), self._uri_of(path)
            if names is None or uri is None:
                continue
            try:
                status = os.stat(os.path.join(self._root.path, *names), follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size <= self.max_bytes:
                yield Resource(
                    uri=uri,
                    name=path,
                    mime_type=self._mime_type(path),
                    size=status.st_size,
                    annotations=self.details.get("annotations"),  # type: ignore[arg-type]  # converted
                )

    def _walk(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._root.path):
            if not self.recursive:
                folders.clear()
            if not self._root.hidden:
                folders[:] = [name for name in folders if not name.startswith(".")]
            folders.sort()
            below = os.path.relpath(folder, self._root.path).replace(os.sep, "/")
            for name in sorted(files):
                yield name if below == "." else f"{below}/{name}"

    # -- registering

    def entries(self) -> list[ResourceEntry | TemplateEntry]:
        """Return the entries to register: the template, then each present file."""
        # Paths that lead out of the directory are refused when they are opened.
        details = ResourceDetails(name=os.path.basename(self._root.path), allow_path_escapes=True)
        details.update(self.details)

        def read(path: str) -> ResourceContents:  # without a docstring, which would be listed
            return self.read(path)

        template = build_resource(self.uri, read, signature=signature.inspect(read), **details)
        return [template, *map(self._entry, self.files())]

    def _entry(self, item: Resource) -> ResourceEntry:
        path = item.name

        def read() -> ResourceContents:
            return self.read(path)

        return ResourceEntry(
            key=item.uri,
            function=read,
            signature=signature.inspect(read),
            mime_type=item.mime_type,
            scopes=parse_scopes(self.details.get("scopes", ())),
            tags=parse_tags(self.details.get("tags", ())),
            item=item,
            **read_hints(self.details, f"resource {item.uri!r}"),
        )

    def publish(self, resources: Resources) -> None:
        """Register the template and the files; call it again to follow changes."""
        entries = {entry.key: entry for entry in self.entries()}
        for key in sorted(self._published - entries.keys()):
            with suppress(KeyError):
                resources.registry_of(key).remove(key)
            self._published.discard(key)
        for key, entry in entries.items():
            known = resources.registry_of(key).get(key) if key in self._published else None
            if known is None or known.item != entry.item:
                is_replaced = key in self._published or self.details.get("replace", False)
                resources.add(entry, replace=is_replaced)
                self._published.add(key)
