"""The archive of a bundle: read with distrust, and unpacked as a whole or not at all."""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

import msgspec

from accord_tools.hosts.bundles.manifest import BundleManifest, read_manifest, unsafe_path
from accord_tools.hosts.definition import HostsError

MANIFEST: Final = "manifest.json"
_MOST_ARCHIVE: Final = 512 * 1024 * 1024
_MOST_FILES: Final = 50_000
_MOST_BYTES: Final = 2 * 1024 * 1024 * 1024
_MOST_MANIFEST: Final = 1024 * 1024
# Text shrinks to a tenth, repetitions to a thousandth: that is only right for small bundles.
_MOST_RATIO: Final = 200
_RATIO_FROM: Final = 4 * 1024 * 1024
_LONGEST_NAME: Final = 1000
_LONGEST_PART: Final = 255
_CHUNK: Final = 1024 * 1024
_DEVICES: Final = re.compile(r"(?i)(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?")
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UNSOUND: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(NotImplementedError, EOFError, ValueError, OverflowError),
)
_IS_ENCRYPTED: Final = 0x1
_UNIX: Final = 3
_SIGNATURE: Final = b"MCPB_SIG_V1"
_SIGNATURE_END: Final = b"MCPB_SIG_END"


class BundleFile(msgspec.Struct, frozen=True):
    """A file in a bundle.

    Attributes:
        name: its path there, with slashes.
        size: in bytes, unpacked.
        mode: its permissions.
    """

    name: str
    size: int
    mode: int


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that was read.

    Attributes:
        path: of the archive.
        manifest: what it says about itself.
        files: what it contains, in its order.
        digest: SHA-256 of the archive.
        is_signed: whether a signature follows the archive; it is not verified.
        remarks: what is not as it should be without doing harm.
    """

    path: Path
    manifest: BundleManifest
    files: tuple[BundleFile, ...]
    digest: str
    is_signed: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(each.size for each in self.files)

    def has_file(self, name: str) -> bool:
        """Return whether there is such a file."""
        return any(each.name == name for each in self.files)


def read_bundle(path: Path) -> Bundle:
    """Read a bundle without unpacking it.

    Raises:
        HostsError: it is not a bundle, its manifest cannot be used, or unpacking it would do harm.
    """
    with _open_archive(path) as file:
        digest, is_signed = _read_digest(file)
        with _read_zip(path, file) as archive:
            infos = _check_entries(path, archive)
            manifest, remarks = _read_manifest(path, archive)
    files = tuple(
        BundleFile(each.filename, each.file_size, _mode_of(each, manifest)) for each in infos
    )
    bundle = Bundle(
        path=path.absolute(),
        manifest=manifest,
        files=files,
        digest=digest,
        is_signed=is_signed,
        remarks=remarks,
    )
    return msgspec.structs.replace(bundle, remarks=(*remarks, *_content_remarks(bundle)))


def unpack_bundle(bundle: Bundle, folder: Path) -> Path:
    """Unpack a bundle into a folder of its own, which is there as a whole or not at all.

    A folder of the same name is replaced, unless it has the same files already.

    Args:
        bundle: what `read_bundle` returned.
        folder: where its files shall be.

    Raises:
        HostsError: it cannot be unpacked, or is not the same archive any more.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with _open_archive(bundle.path) as file:
            if _read_digest(file)[0] != bundle.digest:
                raise HostsError(f"{bundle.path} has changed since it was read; repeat the command")
            with _read_zip(bundle.path, file) as archive:
                _check_entries(bundle.path, archive)
                for each in bundle.files:
                    _unpack_file(bundle.path, archive, each, place)
        place.chmod(0o755)
        if _has_same_files(bundle, place, folder):
            return folder
        _exchange(place, folder)
    except OSError as error:
        raise HostsError(f"{bundle.path} cannot be unpacked: {error.strerror or error}") from None
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _open_archive(path: Path) -> Iterator[IO[bytes]]:
    try:
        if not path.is_file():
            kind = "is a folder" if path.is_dir() else "does not exist"
            raise HostsError(f"{path} {kind}; expected a bundle, a file that ends with .mcpb")
        file = open(path, "rb")  # noqa: SIM115  # closed below
    except OSError as error:
        raise HostsError(f"{path}: {error.strerror}") from None
    with file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST_ARCHIVE:
            raise HostsError(f"{path} has {size} bytes; the most for a bundle is {_MOST_ARCHIVE}")
        yield file


def _read_digest(file: IO[bytes]) -> tuple[str, bool]:
    digest, tail = hashlib.sha256(), b""
    file.seek(0)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        tail = (tail + chunk)[-_CHUNK:]
    file.seek(0)
    is_signed = tail.rstrip(b"\0\r\n").endswith(_SIGNATURE_END) and _SIGNATURE in tail
    return digest.hexdigest(), is_signed


@contextlib.contextmanager
def _read_zip(path: Path, file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except _UNSOUND as error:
        raise HostsError(f"{path} is not a sound archive: {error}") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the start of the file
            raise
        raise HostsError(f"{path} is not a sound archive: a place in it is wrong") from None
    except RuntimeError as error:  # encrypted
        raise HostsError(f"{path} cannot be unpacked: {error}") from None


# -- what may be unpacked


def _check_entries(path: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the files of an archive.

    Raises:
        HostsError: unpacking it could harm this machine.
    """
    infos = archive.infolist()
    if len(infos) > _MOST_FILES:
        raise HostsError(f"{path} has {len(infos)} files; the most for a bundle is {_MOST_FILES}")
    total = sum(each.file_size for each in infos)
    if total > _MOST_BYTES:
        raise HostsError(
            f"{path} would have {total} bytes unpacked; the most for a bundle is {_MOST_BYTES}"
        )
    ratio = total / path.stat().st_size
    if total > _RATIO_FROM and ratio > _MOST_RATIO:
        raise HostsError(
            f"{path} grows to {ratio:.0f} times its size, as an attack would; it is not unpacked"
        )
    taken: dict[str, str] = {}
    folders: set[str] = set()
    for each in infos:
        problem = _entry_problem(each)
        if problem:
            raise HostsError(f"{path}: {each.filename[:200]!r} {problem}; it is not unpacked")
        if not each.is_dir():
            _check_collision(path, each.filename, taken, folders)
    return [each for each in infos if not each.is_dir()]


def _check_collision(path: Path, name: str, taken: dict[str, str], folders: set[str]) -> None:
    # Systems that ignore case, or the form of accents, would write one file over another.
    key = unicodedata.normalize("NFC", name).casefold()
    above = [str(each) for each in PurePosixPath(key).parents][:-1]
    other = taken.get(key) or next((taken[each] for each in above if each in taken), None)
    if other is not None or key in folders:
        raise HostsError(
            f"{path}: {name[:200]!r} and {(other or name)[:200]!r} would be the same file; "
            "it is not unpacked"
        )
    taken[key] = name
    folders.update(above)


def _entry_problem(info: zipfile.ZipInfo) -> str:
    name = info.filename
    if problem := unsafe_path(name.rstrip("/")):
        return f"has a bad path: {problem}"
    if problem := _name_problem(name):
        return problem
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link" if kind == stat.S_IFLNK else "is neither a file nor a folder"
    if info.flag_bits & _IS_ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in _METHODS:
        return "is compressed in a way that bundles do not use"
    return ""


def _name_problem(name: str) -> str:
    if "\\" in name or ":" in name:
        return "has a backslash or a colon in its path"
    if any(unicodedata.category(sign) in ("Cc", "Cf", "Cs") for sign in name):
        return "has control characters in its path"
    parts = name.rstrip("/").split("/")
    if len(name) > _LONGEST_NAME or any(len(each.encode()) > _LONGEST_PART for each in parts):
        return "has a path that is too long"
    if any(each in ("", ".") or each != each.rstrip(". ") for each in parts):
        return "has an empty part in its path, or one that ends with a dot or a blank"
    if any(_DEVICES.fullmatch(each) for each in parts):
        return "has the name of a device of Windows"
    return ""


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> tuple[BundleManifest, tuple[str, ...]]:
    try:
        info = archive.getinfo(MANIFEST)
    except KeyError:
        inner = [each for each in archive.namelist() if each.endswith(f"/{MANIFEST}")][:1]
        hint = f"; {inner[0]} is in a folder, and should not be" if inner else ""
        raise HostsError(f"{path} has no {MANIFEST}, and is not a bundle{hint}") from None
    if info.file_size > _MOST_MANIFEST:
        raise HostsError(f"{path}: {MANIFEST} has {info.file_size} bytes, and is not read")
    try:
        return read_manifest(archive.read(info))
    except HostsError as error:
        raise HostsError(f"{path}: {error}") from None


def _content_remarks(bundle: Bundle) -> Iterator[str]:
    server = bundle.manifest.server
    point = server.entry_point.removeprefix("${__dirname}/").removeprefix("./")
    if not bundle.has_file(point) and not bundle.has_file(f"{point}.exe"):
        yield f"the bundle has no file {point}, its entry point"
    if server.type == "uv" and not bundle.has_file("pyproject.toml"):
        yield "the bundle has no pyproject.toml, which the server type uv needs"
    for each in bundle.files:
        if is_private(each.name):
            yield f"the bundle has {each.name}, which may be private"


_PRIVATE: Final = re.compile(
    r"(?i)(?:.*/)?(?:\.env(?:\..+)?|\.git/.*|.*\.(?:pem|key|p12|pfx|jks|keystore)|id_(?:rsa|dsa|"
    r"ecdsa|ed25519)|\.netrc|\.npmrc|\.pypirc|credentials(?:\.json)?|secrets?(?:\.(?:json|ya?ml|toml|txt|ini))?|\.aws/.*|"
    r"\.ssh/.*)"
)
_EXAMPLE: Final = re.compile(r"(?i).*\.env\.(?:example|sample|template|dist)")
# Certificates of authorities come with packages, and are public.
_AUTHORITIES: Final = re.compile(r"(?i)(?:.*/)?(?:cacert|ca-bundle|ca-certificates)\.(?:pem|crt)")


def is_private(name: str) -> bool:
    """Return whether a file has the name of a secret, which must not be given away."""
    if _EXAMPLE.fullmatch(name) or _AUTHORITIES.fullmatch(name):
        return False
    return _PRIVATE.fullmatch(name) is not None


# -- unpacking


def _mode_of(info: zipfile.ZipInfo, manifest: BundleManifest) -> int:
    mode = (info.external_attr >> 16) & 0o777 if info.create_system == _UNIX else 0
    point = manifest.server.entry_point.removeprefix("${__dirname}/").removeprefix("./")
    is_program = manifest.server.type == "binary" and info.filename in (point, f"{point}.exe")
    return 0o755 if mode & 0o111 or is_program else 0o644


def _unpack_file(path: Path, archive: zipfile.ZipFile, file: BundleFile, place: Path) -> None:
    target = place / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    left = file.size
    with archive.open(file.name) as source, open(target, "xb") as copy:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise HostsError(f"{path}: {file.name!r} is larger than the archive says")
            copy.write(chunk)
    if left:
        raise HostsError(f"{path}: {file.name!r} is smaller than the archive says")
    target.chmod(file.mode)


def _has_same_files(bundle: Bundle, place: Path, folder: Path) -> bool:
    """Whether a folder has all files of a bundle already; it may have others, made since."""
    import filecmp

    return folder.is_dir() and all(
        (folder / each.name).is_file()
        and filecmp.cmp(place / each.name, folder / each.name, shallow=False)
        for each in bundle.files
    )


def _exchange(place: Path, folder: Path) -> None:
    if not folder.exists():
        os.rename(place, folder)
        return
    older = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    os.rename(folder, older / "files")
    try:
        os.rename(place, folder)
    except OSError:
        os.rename(older / "files", folder)
        raise
    finally:
        shutil.rmtree(older, ignore_errors=True)
