"""Bundles are read with distrust, and unpacked as a whole or not at all."""

import json
import os
import stat
import zipfile

import pytest

from accord_tools.hosts.bundles import archive
from accord_tools.hosts.bundles.archive import is_private, read_bundle, unpack_bundle
from accord_tools.hosts.definition import HostsError
from support.tables import cases

MANIFEST = {
    "manifest_version": "0.3",
    "name": "desk",
    "version": "1.0.0",
    "description": "A desk",
    "author": {"name": "Ada"},
    "server": {
        "type": "node",
        "entry_point": "server/index.js",
        "mcp_config": {"command": "node", "args": ["${__dirname}/server/index.js"]},
    },
}


def make(path, entries=(), manifest=MANIFEST, **settings):
    """Write an archive with a manifest, an entry point, and entries: name, or info and data."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **settings) as zipped:
        if manifest is not None:
            text = manifest if isinstance(manifest, str) else json.dumps(manifest)
            zipped.writestr("manifest.json", text)
        zipped.writestr("server/index.js", "// serve")
        for name, data in entries:
            zipped.writestr(name, data)
    return path


def entry(name, mode=0o100644, **members):
    info = zipfile.ZipInfo("placeholder")
    info.filename = name
    info.external_attr = mode << 16
    info.create_system = 3
    for member, value in members.items():
        setattr(info, member, value)
    return info


@pytest.fixture
def path(tmp_path):
    return tmp_path / "desk.mcpb"


def test_a_sound_bundle_is_read(path):
    bundle = read_bundle(make(path, [("README.md", "hello")]))
    assert [each.name for each in bundle.files] == [
        *("manifest.json", "server/index.js", "README.md")
    ]
    assert bundle.manifest.title == "desk"
    assert bundle.remarks == ()
    assert len(bundle.digest) == 64


BAD_NAMES = [
    ("/etc/passwd", "it is not relative"),
    ("C:/x", "it is not relative"),
    ("../x", "it leads out of the bundle"),
    ("a/../../x", "it leads out of the bundle"),
    ("a\\..\\x", "it leads out of the bundle"),
    ("a\\b", "has a backslash or a colon"),
    ("ab:c", "has a backslash or a colon"),
    ("a//b", "has an empty part"),
    ("./a", "has an empty part"),
    ("a /b", "ends with a dot or a blank"),
    ("a./b", "ends with a dot or a blank"),
    ("server/NUL", "name of a device of Windows"),
    ("com1.txt", "name of a device of Windows"),
    ("a\nb", "has control characters"),
    ("a\u202eb", "has control characters"),
    ("x" * 300, "is too long"),
    ("manifest.json", "would be the same file"),
    ("MANIFEST.JSON", "would be the same file"),
    ("server/index.js/x", "would be the same file"),
    ("Server", "would be the same file"),
]


@pytest.mark.parametrize(
    ("name", "said"), BAD_NAMES, ids=[repr(name)[:20] for name, _ in BAD_NAMES]
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_path_that_could_do_harm_is_refused(path, name, said):
    with pytest.raises(HostsError, match=said):
        read_bundle(make(path, [(entry(name), "x")]))


def test_accents_in_two_forms_are_one_file(path):
    with pytest.raises(HostsError, match="would be the same file"):
        read_bundle(make(path, [("caf\u00e9", "x"), ("cafe\u0301", "y")]))


@pytest.mark.parametrize(
    ("mode", "said"),
    [(stat.S_IFLNK | 0o777, "is a link"), (stat.S_IFIFO | 0o644, "is neither a file nor")],
)
def test_links_and_devices_are_refused(path, mode, said):
    with pytest.raises(HostsError, match=said):
        read_bundle(make(path, [(entry("x", mode), "/etc/passwd")]))


def test_an_encrypted_file_is_refused(path):
    data = bytearray(make(path, [("x", "y")]).read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(HostsError, match="'x' is encrypted"):
        read_bundle(path)


def test_another_compression_is_refused(path):
    with pytest.raises(HostsError, match="in a way that bundles do not use"):
        read_bundle(make(path, [(entry("x", compress_type=zipfile.ZIP_LZMA), "y")]))


def test_a_file_that_grows_beyond_measure_is_refused(path):
    with pytest.raises(HostsError, match=r"grows to \d+ times its size"):
        read_bundle(make(path, [("x", bytes(5_000_000))], compresslevel=1))


def test_many_files_that_grow_beyond_measure_together_are_refused(path):
    """Each is too small to be refused by itself; zeros shrink to a thousandth."""
    files = [(f"{number}.bin", bytes(2_000_000)) for number in range(10)]
    with pytest.raises(HostsError, match=r"grows to \d+ times its size"):
        read_bundle(make(path, files))


def test_one_file_of_zeros_in_a_bundle_that_is_not_small_is_read(path):
    files = [("zeros.bin", bytes(5_000_000)), ("noise.bin", os.urandom(100_000))]
    assert read_bundle(make(path, files)).has_file("zeros.bin")


def test_too_many_files_and_bytes_are_refused(path, monkeypatch):
    make(path, [(f"f{number}", "x" * 50) for number in range(10)])
    monkeypatch.setattr(archive, "_MOST_BYTES", 500)
    with pytest.raises(HostsError, match="bytes unpacked; the most for a bundle"):
        read_bundle(path)
    monkeypatch.setattr(archive, "_MOST_FILES", 5)
    with pytest.raises(HostsError, match="has 12 files; the most"):
        read_bundle(path)
    monkeypatch.setattr(archive, "_MOST_ARCHIVE", 50)
    with pytest.raises(HostsError, match="the most for a bundle is 50"):
        read_bundle(path)


def test_a_size_that_is_not_the_real_one_is_noticed(path, tmp_path):
    data = bytearray(make(path, [("x", b"y" * 5000)]).read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (100).to_bytes(4, "little")
    path.write_bytes(data)
    bundle = read_bundle(path)
    with pytest.raises(HostsError, match=r"is not a sound archive|than the archive says"):
        unpack_bundle(bundle, tmp_path / "out")
    assert os.listdir(tmp_path) == ["desk.mcpb"]


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x05\x06" + bytes(18), os.urandom(3000)])
def test_a_file_that_is_not_an_archive_is_refused(path, data):
    path.write_bytes(data)
    with pytest.raises(HostsError, match=r"is not a sound archive|has no manifest\.json"):
        read_bundle(path)


def test_a_damaged_file_is_refused_when_it_is_unpacked(path, tmp_path):
    data = make(path, [(entry("x", compress_type=zipfile.ZIP_STORED), b"hello")]).read_bytes()
    path.write_bytes(data.replace(b"hello", b"jello"))
    with pytest.raises(HostsError, match="is not a sound archive: Bad CRC"):
        unpack_bundle(read_bundle(path), tmp_path / "out")
    assert os.listdir(tmp_path) == ["desk.mcpb"]


def test_an_archive_without_manifest_is_refused(path):
    with pytest.raises(HostsError, match=r"has no manifest.json.*; desk/manifest.json is in a"):
        read_bundle(make(path, [("desk/manifest.json", "{}")], manifest=None))


def test_a_huge_manifest_is_refused(path):
    with pytest.raises(HostsError, match="bytes, and is not read"):
        read_bundle(make(path, manifest=" " * 2_000_000))


@pytest.mark.parametrize(("name", "said"), [("gone.mcpb", "does not exist"), ("", "is a folder")])
def test_a_missing_bundle_is_refused(tmp_path, name, said):
    with pytest.raises(HostsError, match=said):
        read_bundle(tmp_path / name)


def test_a_signature_after_the_archive_is_noticed(path):
    data = make(path).read_bytes()
    path.write_bytes(data + b"MCPB_SIG_V1" + bytes(4) + b"signature" + b"MCPB_SIG_END")
    assert read_bundle(path).is_signed


def test_files_that_may_be_private_are_remarked(path):
    bundle = read_bundle(make(path, [("server/.env", "x"), ("server/.env.example", "y")]))
    assert bundle.remarks == ("the bundle has server/.env, which may be private",)


@cases(
    ("name", "expected"),
    [
        ("a/.env.local", True),
        ("key.pem", True),
        ("id_rsa", True),
        (".ssh/config", True),
        ("secrets.json", True),
        ("lib/secrets.py", False),
        ("certifi/cacert.pem", False),
        ("environment.py", False),
    ],
)
def test_private_files_are_known_by_name(name, expected):
    assert is_private(name) == expected


# -- unpacking


def test_a_bundle_is_unpacked_with_its_modes(path, tmp_path):
    more = [
        (entry("bin/tool", 0o104755), "x"),
        (entry("plain", 0o100600), "y"),
        (entry("empty/", 0o40755), ""),
    ]
    folder = unpack_bundle(read_bundle(make(path, more)), tmp_path / "a" / "desk@1")
    assert (folder / "server/index.js").read_text() == "// serve"
    # Neither setuid nor the permissions of the machine that packed it.
    assert stat.S_IMODE((folder / "bin/tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "plain").stat().st_mode) == 0o644
    assert os.listdir(folder.parent) == ["desk@1"]


def test_a_binary_that_was_packed_on_windows_is_executable(path, tmp_path):
    server = {"type": "binary", "entry_point": "tool", "mcp_config": {"command": "tool"}}
    bundle = make(path, [(entry("tool", create_system=0), "x")], {**MANIFEST, "server": server})
    folder = unpack_bundle(read_bundle(bundle), tmp_path / "out")
    assert os.access(folder / "tool", os.X_OK)


def test_the_same_files_are_left_in_place(path, tmp_path):
    bundle = read_bundle(make(path))
    folder = unpack_bundle(bundle, tmp_path / "out")
    (folder / ".venv").mkdir()
    unpack_bundle(bundle, folder)
    assert (folder / ".venv").is_dir()


def test_another_bundle_replaces_the_files_of_the_older_one(path, tmp_path):
    folder = unpack_bundle(read_bundle(make(path, [("old", "x")])), tmp_path / "out")
    unpack_bundle(read_bundle(make(path, [("new", "x")])), folder)
    assert sorted(os.listdir(folder)) == ["manifest.json", "new", "server"]
    assert sorted(os.listdir(tmp_path)) == ["desk.mcpb", "out"]


def test_a_bundle_that_changed_meanwhile_is_refused(path, tmp_path):
    bundle = read_bundle(make(path))
    make(path, [("more", "x")])
    with pytest.raises(HostsError, match="has changed since it was read"):
        unpack_bundle(bundle, tmp_path / "out")
    assert os.listdir(tmp_path) == ["desk.mcpb"]


def test_any_bytes_are_either_read_or_refused(path, tmp_path):
    """Every third byte of a small archive is changed once."""
    data = make(path, [("x", "y")]).read_bytes()
    outcomes = {"read": 0, "refused": 0}
    for at in range(0, len(data), 3):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            unpack_bundle(read_bundle(path), tmp_path / "out")
            outcomes["read"] += 1
        except HostsError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 10
