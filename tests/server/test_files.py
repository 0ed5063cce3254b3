"""Files as resources: reading, listing, and every known way out of the folder, closed."""

import base64
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accord.errors import InternalError, RegistrationError, ResourceNotFound
from accord.server.entries import files as module
from accord.server.entries.files import DirectoryResource, FileResource, split_safe_path
from accord.server.entries.registry import Resources
from accord.server.media import build_contents
from accord.types import Annotations, ResourceContents
from support.leftovers import Leftovers
from support.tables import cases

needs_walking = pytest.mark.skipif(not module._WALKS, reason="no openat on this platform")
needs_fifos = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a folder with files beside a secret."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "root"
    (folder / "docs" / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "docs" / "b.md").write_text("# b")
    (folder / "docs" / "deep" / "c.json").write_text("{}")
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (folder / ".env").write_text("KEY=1")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    return folder


def names(directory: DirectoryResource) -> list[str]:
    return [item.name for item in directory.files()]


# -- paths, by their text alone


@cases(
    "path",
    [
        "a",
        "a.txt",
        "docs/b.md",
        "a b.txt",
        "ä/ö.txt",
        "..a",
        "a..",
        "...a",
        "a...b",
        "50%.txt",
        "100%25.txt",
        "a%20b",
        "%zz",
        "~root",
        "$HOME",
        "-rf",
        "con.txt",
        "a:b",
        "a.",
        "a ",
    ],
)
def test_plain_paths_are_taken_as_they_are(path: str) -> None:
    assert split_safe_path(path, windows=False) == path.split("/")


ATTACKS = {
    "nothing": "",
    "the folder": ".",
    "above": "..",
    "above, then a file": "../secret.txt",
    "above, twice": "../../etc/passwd",
    "in the middle": "docs/../../secret.txt",
    "in the middle, staying inside": "docs/../a.txt",
    "at the end": "docs/..",
    "the folder in the middle": "docs/./b.md",
    "with a backslash": "..\\secret.txt",
    "with both": "docs\\..\\..\\secret.txt",
    "backslash alone": "docs\\b.md",
    "absolute": "/etc/passwd",
    "absolute, twice": "//etc/passwd",
    "empty name": "docs//b.md",
    "trailing slash": "docs/",
    "still encoded dots": "%2e%2e/secret.txt",
    "still encoded dots, upper case": "%2E%2E/secret.txt",
    "half encoded dots": ".%2e/secret.txt",
    "still encoded slash": "..%2fsecret.txt",
    "still encoded slash, harmless": "docs%2Fb.md",
    "still encoded backslash": "..%5csecret.txt",
    "still encoded backslash, upper case": "docs%5Cb.md",
    "encoded twice more": "%252e%252e%252fsecret.txt",
    "encoded three times more": "%25252e%25252e/secret.txt",
    "still encoded NUL": "a.txt%00.png",
    "NUL": "a.txt\0.png",
    "newline": "a\n.txt",
    "delete": "a\x7f.txt",
    "three dots": "...",
    "dots and spaces": ".. ",
    "dots and spaces in the middle": "docs/.. /a.txt",
    "dots apart": ". .",
    "space": " ",
    "UNC": "\\\\host\\share\\a.txt",
    "UNC with slashes": "//host/share/a.txt",
    "device path": "\\\\.\\C:\\a.txt",
    "device path with slashes": "//./C:/a.txt",
    "long path": "\\\\?\\C:\\a.txt",
    "drive with backslash": "C:\\Windows\\win.ini",
}

WINDOWS_ATTACKS = {
    "drive": "C:/Windows/win.ini",
    "drive alone": "C:",
    "relative to a drive": "C:a.txt",
    "drive in the middle": "docs/C:/a.txt",
    "encoded drive": "C%3A/Windows",
    "alternate stream": "a.txt::$DATA",
    "named stream": "a.txt:hidden",
    "trailing dot": "a.txt.",
    "trailing space": "a.txt ",
    "trailing dot of a folder": "docs./b.md",
    "CON": "CON",
    "con": "con",
    "nul with an ending": "nul.txt",
    "aux in a folder": "docs/AUX",
    "prn": "prn.tar.gz",
    "com1": "com1",
    "lpt9": "LPT9.log",
    "com with a small digit": "COM¹",
    "conin": "CONIN$",
    "conout": "conout$",
    "clock": "CLOCK$",
    "device with a space": "nul .txt",
    "encoded device": "%6eul",
}


@pytest.mark.requirement("resources.file.sanitise-paths")
@cases("windows", [False, True], ids=["posix", "windows"])
@cases("path", ATTACKS.values(), ids=ATTACKS.keys())
def test_paths_that_may_lead_elsewhere_are_refused_by_their_text(path: str, windows: bool) -> None:
    assert split_safe_path(path, windows=windows) is None


@pytest.mark.requirement("resources.file.sanitise-paths")
@cases("path", WINDOWS_ATTACKS.values(), ids=WINDOWS_ATTACKS.keys())
def test_names_that_mean_something_else_on_windows_are_refused_there(path: str) -> None:
    assert split_safe_path(path, windows=True) is None


@cases("path", ["config.txt", "null", "com10", "lpt", "auxiliary.c", "prn1"])
def test_names_that_only_resemble_devices_are_taken_on_windows(path: str) -> None:
    assert split_safe_path(path, windows=True) == [path]


def test_text_that_is_encoded_very_often_is_refused_quickly() -> None:
    assert split_safe_path("%" + "25" * 100_000 + "41", windows=False) is None


# -- the same through URIs


@pytest.mark.requirement("resources.file.sanitise-paths", "resources.uri.validated")
@cases("path", [*ATTACKS.values(), *WINDOWS_ATTACKS.values()], ids=[*ATTACKS, *WINDOWS_ATTACKS])
def test_no_path_reads_anything_outside(root: Path, path: str) -> None:
    directory = DirectoryResource(root)
    with pytest.raises(ResourceNotFound) as caught:
        directory.read(path)
    assert str(root) not in caught.value.message
    assert str(root.parent) not in str(caught.value.data)


URIS = {
    "dots": "files://../secret.txt",
    "dots in the middle": "files://docs/../../secret.txt",
    "encoded dots": "files://%2e%2e/secret.txt",
    "encoded slash": "files://..%2Fsecret.txt",
    "encoded slash, harmless": "files://docs%2F%2Fb.md",
    "encoded backslash": "files://..%5Csecret.txt",
    "double encoding": "files://%252e%252e%252fsecret.txt",
    "absolute": "files:///etc/passwd",
    "NUL": "files://a.txt%00",
    "not UTF-8": "files://%ff%fe",
    "overlong dots": "files://%c0%ae%c0%ae/secret.txt",
}


@pytest.mark.requirement("resources.file.sanitise-paths", "resources.uri.validated")
@pytest.mark.parametrize("uri", URIS.values(), ids=URIS.keys())
def test_no_uri_reads_anything_outside(root: Path, uri: str) -> None:
    resources = Resources()
    DirectoryResource(root).publish(resources)
    entry = resources.find(uri)
    if entry is None:
        return
    variables = entry.match(uri)
    with pytest.raises(ResourceNotFound):
        entry.function(**variables)


# -- links


def link(at: Path, to: str | Path) -> Path:
    at.symlink_to(to)
    return at


ESCAPES: dict[str, Callable[[Path], str]] = {
    "to a file outside": lambda root: link(root / "l", "../secret.txt").name,
    "to a file outside, absolute": lambda root: link(root / "l", root.parent / "secret.txt").name,
    "through a folder outside": lambda root: link(root / "l", "..").name + "/secret.txt",
    "by two steps": lambda root: (link(root / "m", "../secret.txt"), link(root / "l", "m"))[1].name,
    "to a folder beside with the same beginning": lambda root: beside(root),
    "out and in again": lambda root: f"{link(root / 'l', '..').name}/{root.name}/a.txt/x",
    "to nothing": lambda root: link(root / "l", "gone").name,
    "to itself": lambda root: link(root / "l", "l").name,
    "to the root": lambda root: link(root / "l", ".").name,
    "to a folder": lambda root: link(root / "l", "docs").name,
    "to what is hidden": lambda root: link(root / "l", ".env").name,
    "to a hidden folder": lambda root: link(root / "l", ".git").name + "/config",
}


def beside(root: Path) -> str:
    other = root.parent / "root-other"
    other.mkdir()
    (other / "x").write_text("secret")
    return link(root / "l", other / "x").name


@pytest.mark.requirement("resources.file.sanitise-paths")
@pytest.mark.parametrize("make", ESCAPES.values(), ids=ESCAPES.keys())
def test_links_that_leave_the_root_are_neither_read_nor_listed(
    root: Path, make: Callable[[Path], str]
) -> None:
    path = make(root)
    directory = DirectoryResource(root)
    with pytest.raises(ResourceNotFound):
        directory.read(path)
    assert not [name for name in names(directory) if name.startswith("l")]


def test_links_that_stay_inside_are_read_and_listed(root: Path) -> None:
    link(root / "same", "a.txt")
    link(root / "docs" / "up", "../a.txt")
    link(root / "folder", "docs")
    directory = DirectoryResource(root)
    assert directory.read("same").text == "a"
    assert directory.read("docs/up").text == "a"
    assert directory.read("folder/b.md").text == "# b"
    assert {"same", "docs/up"} <= set(names(directory))
    assert not [name for name in names(directory) if name.startswith("folder")]


def test_a_root_that_is_a_link_is_a_root(root: Path) -> None:
    directory = DirectoryResource(link(root.parent / "alias", root))
    assert directory.read("docs/b.md").text == "# b"


SWAPS: dict[str, Callable[[Path], Any]] = {
    "the file": lambda root: swap(root / "docs" / "b.md", root.parent / "secret.txt"),
    "its folder": lambda root: swap(root / "docs", root.parent / "evil"),
}


def swap(path: Path, target: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(target)


@pytest.mark.requirement("resources.file.sanitise-paths")
@pytest.mark.parametrize("walk", [pytest.param(True, marks=needs_walking), False])
@pytest.mark.parametrize("change", SWAPS.values(), ids=SWAPS.keys())
def test_a_file_that_becomes_a_link_after_the_check_is_not_followed(
    root: Path, change: Callable[[Path], Any], walk: bool
) -> None:
    (root.parent / "evil").mkdir()
    (root.parent / "evil" / "b.md").write_text("secret")
    place = DirectoryResource(root)._root
    found = place.locate(["docs", "b.md"])
    assert found == ["docs", "b.md"]
    change(root)
    assert place.open(found, walk=walk) is None


@pytest.mark.parametrize("walk", [pytest.param(True, marks=needs_walking), False])
def test_both_ways_of_opening_read_the_same(root: Path, walk: bool) -> None:
    place = DirectoryResource(root)._root
    file = place.open(["docs", "b.md"], walk=walk)
    assert file is not None
    with open(file, "rb") as stream:
        assert stream.read() == b"# b"
    assert place.open(["docs", "gone"], walk=walk) is None
    assert place.open(["docs"], walk=walk) is None


# -- pipes, sockets and other special files


@needs_fifos
@pytest.mark.parametrize("walk", [pytest.param(True, marks=needs_walking), False])
def test_a_pipe_is_refused_without_waiting_for_it(root: Path, walk: bool) -> None:
    os.mkfifo(root / "pipe")
    directory = DirectoryResource(root)
    with pytest.raises(ResourceNotFound):
        directory.read("pipe")
    assert directory._root.open(["pipe"], walk=walk) is None
    assert "pipe" not in names(directory)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets here")
def test_a_socket_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        with pytest.raises(ResourceNotFound):
            DirectoryResource(root).read("sock")


def test_an_unreadable_file_is_not_found(root: Path) -> None:
    if os.name == "nt" or os.geteuid() == 0:
        pytest.skip("everything may be read here")
    (root / "a.txt").chmod(0)
    with pytest.raises(ResourceNotFound):
        DirectoryResource(root).read("a.txt")


def test_no_file_stays_open(root: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files cannot be counted here")
    (root / "big").write_bytes(b"x" * 100)
    link(root / "l", "../secret.txt")
    directory = DirectoryResource(root, max_bytes=50)
    left = Leftovers()
    for path in ["a.txt", "docs/b.md", "docs", "gone", "l", "big", "../a"] * 5:
        try:
            directory.read(path)
        except (ResourceNotFound, InternalError):
            continue
    for walk in (True, False):
        assert directory._root.open(["docs"], walk=walk) is None
    assert not left.descriptors()


# -- reading


@pytest.mark.requirement("resources.contents.text-or-blob", "resources.contents.mime-type")
@pytest.mark.parametrize(
    ("name", "data", "mime_type", "is_text"),
    [
        ("x.md", "ä".encode(), "text/markdown", True),
        ("x.json", b"{}", "application/json", True),
        ("x.svg", b"<svg/>", "image/svg+xml", True),
        ("x.png", b"plain", "image/png", False),
        ("x.pdf", b"%PDF", "application/pdf", False),
        ("x", b"plain", "text/plain", True),
        ("x", b"", "text/plain", True),
        ("x", b"\xff\xfe", "application/octet-stream", False),
        ("x", b"a\0b", "application/octet-stream", False),
        ("x.txt", b"\xff\xfe", "text/plain", False),
        ("x.txt", b"a\r\nb\n", "text/plain", True),
    ],
)
def test_text_is_given_as_text_and_the_rest_as_base64(
    root: Path, name: str, data: bytes, mime_type: str, is_text: bool
) -> None:
    (root / name).write_bytes(data)
    read = DirectoryResource(root).read(name)
    assert read.mime_type == mime_type
    if is_text:
        assert (read.text, read.blob) == (data.decode(), None)
    else:
        assert (read.text, read.blob) == (None, base64.b64encode(data).decode())


def test_a_file_is_read_by_the_uri_that_lists_it(root: Path) -> None:
    odd = ["50%.txt", "a b.txt", "ä.txt", "what?.txt", "a#b.txt", "a&b=c.txt", "{x}.txt", "a%20b"]
    for name in odd:
        (root / "docs" / name).write_text(name)
    resources = Resources()
    directory = DirectoryResource(root)
    directory.publish(resources)
    listed = {item.name: item.uri for item in directory.files()}
    assert {f"docs/{name}" for name in odd} <= listed.keys()
    for name in odd:
        uri = listed[f"docs/{name}"]
        for entry in (resources.find(uri), *resources.templates):
            assert entry is not None
            result = build_contents(entry, uri, entry.function(**entry.match(uri)))
            assert result.contents == [
                ResourceContents(uri=uri, mime_type=result.contents[0].mime_type, text=name)
            ]


def test_a_name_that_looks_encoded_is_not_listed_because_it_is_not_read(root: Path) -> None:
    (root / "a%2Fb.txt").write_text("x")
    directory = DirectoryResource(root)
    assert "a%2Fb.txt" not in names(directory)
    with pytest.raises(ResourceNotFound):
        directory.read("a%2Fb.txt")


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_a_name_that_is_not_utf_8_is_left_out(root: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(root) + b"/\xff.txt")).write_text("x")
    except OSError:
        pytest.skip("such names cannot be made here")
    assert names(DirectoryResource(root)) == names(DirectoryResource(root, pattern="*"))
    assert not [name for name in names(DirectoryResource(root)) if "\udcff" in name]


def test_a_file_beyond_the_limit_is_refused_and_not_listed(root: Path) -> None:
    (root / "big.txt").write_bytes(b"x" * 11)
    (root / "fits.txt").write_bytes(b"x" * 10)
    directory = DirectoryResource(root, max_bytes=10)
    assert directory.read("fits.txt").text == "x" * 10
    with pytest.raises(InternalError, match=r"'files://big\.txt' is larger than 10 bytes"):
        directory.read("big.txt")
    assert "fits.txt" in names(directory)
    assert "big.txt" not in names(directory)


@pytest.mark.parametrize("path", [".env", ".git/config", "docs/../.env"])
def test_hidden_files_are_not_offered_by_default(root: Path, path: str) -> None:
    with pytest.raises(ResourceNotFound):
        DirectoryResource(root).read(path)
    assert path not in names(DirectoryResource(root))


def test_hidden_files_are_offered_with_the_setting(root: Path) -> None:
    directory = DirectoryResource(root, hidden=True)
    assert directory.read(".env").text == "KEY=1"
    assert {".env", ".git/config"} <= set(names(directory))


@pytest.mark.parametrize(
    ("pattern", "offered"),
    [
        ("*", ["a.txt", "photo.png", "docs/b.md", "docs/deep/c.json"]),
        ("*.md", ["docs/b.md"]),
        ("b*", ["docs/b.md"]),
        ("docs/*", ["docs/b.md", "docs/deep/c.json"]),
        ("*.MD", []),
        ("*.[jp]*", ["photo.png", "docs/deep/c.json"]),
    ],
)
def test_a_pattern_decides_which_files_are_offered(
    root: Path, pattern: str, offered: list[str]
) -> None:
    directory = DirectoryResource(root, pattern=pattern)
    assert names(directory) == offered
    for path in ["a.txt", "photo.png", "docs/b.md", "docs/deep/c.json"]:
        if path in offered:
            directory.read(path)
        else:
            with pytest.raises(ResourceNotFound):
                directory.read(path)


def test_a_pattern_holds_for_the_target_of_a_link(root: Path) -> None:
    (root / "key.pem").write_text("secret")
    link(root / "key.md", "key.pem")
    link(root / "b.txt", "docs/b.md")
    directory = DirectoryResource(root, pattern="*.md")
    assert names(directory) == ["docs/b.md"]
    for path in ("key.md", "b.txt"):
        with pytest.raises(ResourceNotFound):
            directory.read(path)


def test_folders_below_can_be_left_out(root: Path) -> None:
    directory = DirectoryResource(root, recursive=False)
    assert names(directory) == ["a.txt", "photo.png"]
    with pytest.raises(ResourceNotFound):
        directory.read("docs/b.md")


def test_a_template_may_encode_slashes(root: Path) -> None:
    directory = DirectoryResource(root, "top:///{path}", pattern="*.md")
    (file,) = directory.files()
    assert file.uri == "top:///docs%2Fb.md"
    (root / "docs" / "b.md").rename(root / "docs" / "b c.md")
    (file,) = directory.files()
    assert file.uri == "top:///docs%2Fb%20c.md"
    resources = Resources()
    resources.add(directory.entries()[0])
    entry = resources.find(file.uri)
    assert entry is not None
    assert entry.function(**entry.match(file.uri)).text == "# b"


def test_the_list_is_bounded_and_in_order(root: Path) -> None:
    for at in range(20):
        (root / f"n{at:02}.txt").write_text("x")
    directory = DirectoryResource(root, max_files=5)
    assert names(directory) == ["a.txt", "n00.txt", "n01.txt", "n02.txt", "n03.txt"]
    assert directory.read("n19.txt").text == "x"


@pytest.mark.requirement("resources.item.size", "resources.item.description-and-mime")
def test_files_are_listed_with_size_and_type(root: Path) -> None:
    annotations = Annotations(priority=1)
    directory = DirectoryResource(root, annotations=annotations, title="Papers")
    (first, *_) = directory.files()
    assert (first.uri, first.name, first.size) == ("files://a.txt", "a.txt", 1)
    assert first.mime_type == "text/plain"
    assert first.annotations == annotations
    (template, *_) = directory.entries()
    assert (template.item.name, template.item.title) == ("root", "Papers")
    assert template.item.description is None


def test_a_type_given_for_the_folder_is_that_of_its_files(root: Path) -> None:
    directory = DirectoryResource(root, mime_type="text/x-note")
    assert directory.read("docs/b.md").mime_type == "text/x-note"
    assert {item.mime_type for item in directory.files()} == {"text/x-note"}


# -- registering


def test_publishing_again_follows_changes(root: Path) -> None:
    reported: list[int] = []
    resources = Resources(changed=lambda: reported.append(1))
    directory = DirectoryResource(root)
    directory.publish(resources)
    uris = [entry.key for entry in resources.fixed]
    assert uris == [item.uri for item in directory.files()]
    assert [entry.key for entry in resources.templates] == ["files://{+path}"]
    reported.clear()
    directory.publish(resources)
    assert reported == []
    (root / "a.txt").unlink()
    (root / "new.txt").write_text("new")
    (root / "docs" / "b.md").write_text("longer")
    directory.publish(resources)
    assert len(reported) == 3
    assert [entry.key for entry in resources.fixed] == [
        "files://photo.png",
        "files://docs/b.md",
        "files://docs/deep/c.json",
        "files://new.txt",
    ]
    changed = resources.fixed.get("files://docs/b.md")
    assert changed is not None
    assert changed.item.size == 6


def test_publishing_ignores_entries_that_were_removed_otherwise(root: Path) -> None:
    resources = Resources()
    directory = DirectoryResource(root)
    directory.publish(resources)
    (root / "a.txt").unlink()
    resources.fixed.remove("files://a.txt")
    directory.publish(resources)
    assert "files://a.txt" not in resources.fixed


def test_publishing_does_not_replace_entries_of_others(root: Path) -> None:
    resources = Resources()
    DirectoryResource(root).publish(resources)
    with pytest.raises(RegistrationError, match="registered twice"):
        DirectoryResource(root).publish(resources)


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("files://{+name}", "must have the one variable 'path'"),
        ("files://all", "must have the one variable 'path'"),
        ("files://{+path}{?v}", "must have the one variable 'path'"),
        ("files://{+path", "never closed"),
    ],
)
def test_a_folder_needs_a_template_with_a_path(root: Path, uri: str, why: str) -> None:
    with pytest.raises(RegistrationError, match=why):
        DirectoryResource(root, uri)


def test_a_folder_must_exist(root: Path) -> None:
    with pytest.raises(RegistrationError, match="No such file"):
        DirectoryResource(root / "gone")
    with pytest.raises(RegistrationError, match="is not a folder"):
        DirectoryResource(root / "a.txt")


# -- single files


def test_a_file_is_a_resource(root: Path) -> None:
    file = FileResource(root / "docs" / "b.md", "doc://b", title="B")
    assert file.read() == ResourceContents(uri="doc://b", mime_type="text/markdown", text="# b")
    entry = file.entry()
    assert entry.key == "doc://b"
    assert (entry.item.name, entry.item.title, entry.item.size) == ("b.md", "B", 3)
    assert entry.item.mime_type == "text/markdown"
    assert entry.item.description is None
    assert entry.function() == file.read()


def test_a_file_without_uri_has_a_file_uri(root: Path) -> None:
    file = FileResource(root / "a.txt")
    assert file.uri == (root / "a.txt").as_uri()
    assert file.entry().key == file.uri


def test_given_details_override_those_of_the_file(root: Path) -> None:
    file = FileResource(
        root / "a.txt", "x://a", name="A", mime_type="text/x-a", size=9, description="d"
    )
    item = file.entry().item
    assert (item.name, item.mime_type, item.size) == ("A", "text/x-a", 9)
    assert item.description == "d"
    assert file.read().mime_type == "text/x-a"


def test_a_file_may_come_later(root: Path) -> None:
    file = FileResource(root / "later.txt", "x://later")
    with pytest.raises(ResourceNotFound) as caught:
        file.read()
    assert caught.value.data == {"uri": "x://later"}
    assert file.entry().item.size is None
    (root / "later.txt").write_text("now")
    assert file.read().text == "now"


def test_a_file_may_be_hidden_because_it_was_named(root: Path) -> None:
    assert FileResource(root / ".env", "x://env").read().text == "KEY=1"


def test_a_file_named_relative_to_here_is_found_from_anywhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    file = FileResource("docs/../a.txt", "x://a")
    monkeypatch.chdir(root.parent)
    assert file.read().text == "a"


@pytest.mark.requirement("resources.file.sanitise-paths")
def test_a_file_that_is_a_link_may_not_lead_out_of_its_folder(root: Path) -> None:
    link(root / "docs" / "l", "../a.txt")
    with pytest.raises(RegistrationError, match="is not a regular file below"):
        FileResource(root / "docs" / "l", "x://l")
    assert FileResource(root / "docs" / "l", "x://l", root=root).read().text == "a"
    link(root / "m", "a.txt")
    assert FileResource(root / "m", "x://m").read().text == "a"


def test_a_file_that_becomes_a_link_to_the_outside_is_gone(root: Path) -> None:
    file = FileResource(root / "a.txt", "x://a")
    (root / "a.txt").unlink()
    link(root / "a.txt", "../secret.txt")
    with pytest.raises(ResourceNotFound):
        file.read()


@pytest.mark.parametrize("path", ["docs", "..", "docs/.."])
def test_a_folder_is_refused_as_a_file(root: Path, path: str) -> None:
    with pytest.raises(RegistrationError):
        FileResource(root / path, "x://a")


def test_a_file_outside_the_root_is_refused(root: Path) -> None:
    with pytest.raises(RegistrationError, match="is not below"):
        FileResource(root.parent / "secret.txt", "x://a", root=root)


def test_a_file_beyond_its_limit_is_refused(root: Path) -> None:
    with pytest.raises(InternalError, match="larger than 2 bytes"):
        FileResource(root / "docs" / "b.md", "x://b", max_bytes=2).read()


def test_a_file_cannot_have_a_template(root: Path) -> None:
    with pytest.raises(RegistrationError):
        FileResource(root / "a.txt", "x://{a}").entry()


def test_details_of_files_are_checked(tmp_path: Path) -> None:
    wrong: Any = {"mimetype": "text/plain"}
    with pytest.raises(TypeError, match="add_file\\(\\) has no keyword 'mimetype'"):
        FileResource(tmp_path / "a.txt", **wrong)
    with pytest.raises(TypeError, match="add_directory\\(\\) has no keyword 'mimetype'"):
        DirectoryResource(tmp_path, **wrong)


def test_a_directory_may_take_the_place_of_another(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    resources = Resources()
    for title in ("old", "new"):
        DirectoryResource(tmp_path, title=title, replace=True).publish(resources)
    assert [entry.item.title for entry in resources.templates] == ["new"]
    assert len(resources.fixed) == 1
