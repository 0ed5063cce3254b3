"""`accord bundle` packs servers and shows bundles."""

import json
import os
import shutil
import zipfile

import pytest

MANIFEST = {
    "manifest_version": "0.3",
    "name": "desk",
    "display_name": "Desk \x1b[2J",
    "version": "1.0.0",
    "description": "A desk",
    "author": {"name": "Ada"},
    "server": {
        "type": "node",
        "entry_point": "index.js",
        "mcp_config": {"command": "node", "args": ["${__dirname}/index.js"]},
    },
    "user_config": {"key": {"type": "string", "title": "K", "description": "D", "sensitive": True}},
}


@pytest.fixture
def bundle(tmp_path):
    def make(name="x.mcpb", **members):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("manifest.json", json.dumps({**MANIFEST, **members}))
            archive.writestr("index.js", "")
        return name

    return make


def test_a_server_is_packed_and_shown(accord, good, tmp_path):
    words = ("--author", "Ada", "--version", "1.2.0", "--name", "desk", "--user-config", "API_KEY")
    done = accord("bundle", "good.py", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("desk-1.2.0.mcpb: ")
    shown = accord("bundle", "desk-1.2.0.mcpb", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "1.2.0 (desk), by Ada" in shown.stdout
    assert "setting   api_key (string, secret, required)" in shown.stdout
    assert "tool      add" in shown.stdout


def test_a_module_is_packed_with_its_package(accord, good, tmp_path):
    package = tmp_path / "desk"
    package.mkdir()
    (package / "__init__.py").touch()
    good.rename(package / "server.py")
    words = ("--author", "Ada", "--no-start", "--user-config", "ON:boolean=true")
    done = accord("bundle", "desk.server:server", *words, "--output", "x.mcpb", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "x.mcpb") as archive:
        assert "server/app/desk/server.py" in archive.namelist()
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["user_config"]["on"]["default"] is True


def test_a_bundle_is_shown_as_json(accord, bundle, tmp_path):
    done = accord("bundle", bundle(), "--format", "json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (done.returncode, found["problems"], found["signed"]) == (0, [], False)
    assert found["manifest"]["name"] == "desk"
    assert [each["name"] for each in found["files"]] == ["manifest.json", "index.js"]


def test_control_characters_of_a_bundle_are_escaped(accord, bundle, tmp_path):
    assert "\x1b" not in accord("bundle", bundle(), cwd=tmp_path).stdout


def test_a_bundle_for_other_systems_ends_with_code_1(accord, bundle, tmp_path):
    done = accord("bundle", bundle(compatibility={"platforms": ["aix"]}), cwd=tmp_path)
    assert done.returncode == 1
    assert "is for aix, and this is" in done.stderr


def test_a_written_bundle_is_described_as_json(accord, good, tmp_path):
    words = ("--author", "Ada", "--no-start", "--output", "x.mcpb", "--format", "json")
    done = accord("bundle", "good.py", *words, cwd=tmp_path)
    assert json.loads(done.stdout)["manifest"]["tools_generated"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "bundle needs a TARGET"),
        (("good.py", "x"), "bundle takes one TARGET; unexpected x"),
        (("gone.mcpb",), "gone.mcpb does not exist"),
        (("gone.py",), "there is no file gone.py"),
        (("good.py", "--output", "no/x.mcpb"), "there is no folder no"),
        (("good.py", "--no-start"), "give one with --author"),
        (("good.py", "--user-config", "a b"), "expected KEY, KEY:TYPE or KEY:TYPE=DEFAULT"),
        (("good.py", "--user-config", "A:text"), "unknown type 'text'"),
        (("good.py", "--user-config", "A:number=x"), "'x' is not a number"),
        (("good.py", "--user-config", "TOKEN=x"), "is a secret, which must not have a default"),
    ],
)
def test_a_mistake_is_explained_in_one_line(accord, good, tmp_path, words, said):
    nothing = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = accord("bundle", *words, cwd=tmp_path, **nothing)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_author_is_the_one_that_git_knows(accord, good, tmp_path):
    (tmp_path / "gitconfig").write_text("[user]\nname = Grace Hopper\n")
    words = ("bundle", "good.py", "--no-start", "--output", "x.mcpb")
    accord(*words, cwd=tmp_path, GIT_CONFIG_GLOBAL=str(tmp_path / "gitconfig"))
    assert "by Grace Hopper" in accord("bundle", "x.mcpb", cwd=tmp_path).stdout
