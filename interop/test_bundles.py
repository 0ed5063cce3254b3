"""Bundles of accord against the official packer: each reads what the other has written."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from sessions import HERE, NODE

from accord_tools.hosts.bundles.archive import read_bundle, unpack_bundle

pytestmark = pytest.mark.thorough
PACKER = HERE / "node_modules/@anthropic-ai/mcpb/dist/cli/cli.js"
SERVER = """\
from accord import Server

server = Server("desk", version="1.0.0")

@server.tool
def ask() -> int:
    "Ask."
    return 42

@server.prompt
def poem(topic: str) -> str:
    "Write a poem."
    return f"Write a poem about {topic}."
"""


def call(words: Sequence[str | Path], folder: Path) -> str:
    done = subprocess.run(
        [str(each) for each in words],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pack(folder: Path, *options: str) -> Path:
    (folder / "desk.py").write_text(SERVER)
    command = [sys.executable, "-m", "accord", "bundle", "desk.py", "--output", "desk.mcpb"]
    call([*command, "--author", "Ada", "--user-config", "API_KEY", *options], folder)
    return folder / "desk.mcpb"


@pytest.mark.parametrize("options", [[], ["--with-dependencies"]], ids=["uv", "python"])
def test_the_official_packer_accepts_a_bundle_of_accord(
    tmp_path: Path, options: Sequence[str]
) -> None:
    bundle = pack(tmp_path, *options)
    call([NODE, PACKER, "unpack", bundle, tmp_path / "out"], tmp_path)
    said = call([NODE, PACKER, "validate", tmp_path / "out" / "manifest.json"], tmp_path)
    assert "Manifest schema validation passes!" in said


def test_a_bundle_of_the_official_packer_is_read_and_unpacked(tmp_path: Path) -> None:
    ours = read_bundle(pack(tmp_path))
    place = unpack_bundle(ours, tmp_path / "ours")
    (place / "server" / "main.py").chmod(0o755)
    call([NODE, PACKER, "pack", place, tmp_path / "theirs.mcpb"], tmp_path)
    theirs = read_bundle(tmp_path / "theirs.mcpb")
    assert theirs.manifest == ours.manifest
    assert {each.name for each in theirs.files} == {each.name for each in ours.files}
    copy = unpack_bundle(theirs, tmp_path / "copy")
    assert (copy / "server" / "main.py").stat().st_mode & 0o111


def test_a_signed_bundle_is_read(tmp_path: Path) -> None:
    bundle = pack(tmp_path)
    call([NODE, PACKER, "sign", bundle, "--self-signed"], tmp_path)
    assert read_bundle(bundle).is_signed
    shown = call([sys.executable, "-m", "accord", "bundle", bundle, "--format", "json"], tmp_path)
    assert json.loads(shown)["problems"] == []
