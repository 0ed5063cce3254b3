"""Bundles of Python servers: what is in them, and that they work once they are unpacked."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import accord
from accord import connect
from accord.version import __version__
from accord_tools.hosts.bundles.archive import read_bundle, unpack_bundle
from accord_tools.hosts.bundles.contents import (
    ServerSource,
    collect_modules,
    collect_project,
    copy_packages,
    find_source,
    read_requirements,
    requirements_of,
)
from accord_tools.hosts.bundles.manifest import BundleSetting
from accord_tools.hosts.bundles.packing import BundleRequest, write_bundle
from accord_tools.hosts.definition import HostsError, Machine
from accord_tools.hosts.launching.installation import accord_command
from accord_tools.hosts.targets import TargetReader, read_target
from support.waiting import run

SERVER = """\
import os
from accord import Server
from helper import answer

server = Server("desk", version="2.1.0", instructions="Answers questions.\\nMore.")

@server.tool
def ask() -> str:
    "Ask."
    return f"{answer()} {os.environ.get('LEVEL')}"

@server.prompt
def poem(topic: str) -> str:
    "Write a poem."
    return f"Write a poem about {topic}."
"""
ADA = BundleRequest(author="Ada")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A server with a neighbour that it imports, and other files."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "desk.py").write_text(SERVER)
    (folder / "helper.py").write_text("def answer(): return 42\n")
    (folder / "other.py").write_text("not even Python")
    (folder / ".env").write_text("TOKEN=hidden")
    return folder


@pytest.fixture(scope="module")
def packed(desk, tmp_path_factory):
    """The same with its packages."""
    request = BundleRequest(
        author="Ada",
        has_packages=True,
        settings={"LEVEL": BundleSetting(type="number", title="L", description="D", default=3)},
    )
    output = tmp_path_factory.mktemp("packed")
    return write_bundle(find_source(desk / "desk.py", "server"), output, request)


def names(path):
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


# -- the whole way


def test_a_packed_server_answers_once_it_is_unpacked(packed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    machine = Machine.current(tmp_path)
    reader = TargetReader(machine=machine, accord=accord_command(machine), values={"LEVEL": "7"})
    target = read_target(str(packed.bundle.path), (), reader)
    folder = tmp_path / "config/accord/bundles/desk@2.1.0"
    assert unpack_bundle(target.bundle, folder) == folder
    # -S: nothing of this Python's packages; the bundle has its own.
    program, *words = target.command

    async def ask():
        command = [program, "-S", *words]
        async with connect(command, env=dict(target.env), cwd="/") as client:
            return await client.call_tool("ask", {}, result_type=str)

    assert run(ask()) == "42 7"


def test_the_manifest_says_what_the_server_offers(packed):
    manifest = packed.bundle.manifest
    assert (manifest.manifest_version, manifest.name, manifest.version) == ("0.3", "desk", "2.1.0")
    assert manifest.description == "Answers questions."
    assert [(each.name, each.description) for each in manifest.tools] == [("ask", "Ask.")]
    (prompt,) = manifest.prompts
    assert (prompt.arguments, prompt.text) == (
        ("topic",),
        "Write a poem about ${arguments.topic}.",
    )
    assert manifest.server.mcp_config.env["LEVEL"] == "${user_config.level}"
    assert manifest.compatibility.platforms == (sys.platform,)
    assert packed.bundle.remarks == ()
    assert any("some packages are compiled" in each for each in packed.remarks)


def test_the_packages_of_the_server_are_in_the_bundle(packed):
    found = names(packed.bundle.path)
    assert packed.packages[0] == f"accord {__version__}"
    assert packed.packages[1].startswith("msgspec ")
    assert "server/lib/accord/cli/main.py" in found
    assert any(each.startswith("server/lib/msgspec-") for each in found)
    assert not [each for each in found if each.endswith(".pyc") or "__pycache__" in each]


def test_a_small_bundle_names_its_packages(desk, tmp_path):
    written = write_bundle(find_source(desk / "desk.py"), tmp_path, ADA)
    path = tmp_path / "desk-2.1.0.mcpb"
    assert written.bundle.path == path
    assert names(path) == [
        *("manifest.json", "pyproject.toml", "server/app/desk.py", "server/app/helper.py"),
        "server/main.py",
    ]
    with zipfile.ZipFile(path) as archive:
        project = archive.read("pyproject.toml").decode()
        manifest = json.loads(archive.read("manifest.json"))
    assert f'dependencies = ["accord=={__version__}"]' in project
    assert (manifest["manifest_version"], manifest["server"]["type"]) == ("0.4", "uv")


def test_the_same_files_give_the_same_bytes(desk, tmp_path):
    request = BundleRequest(author="Ada", is_started=False, version="1.0.0")
    source = find_source(desk / "desk.py")
    one = write_bundle(source, tmp_path / "one.mcpb", request)
    (desk / "helper.py").touch()
    two = write_bundle(source, tmp_path / "two.mcpb", request)
    assert one.bundle.digest == two.bundle.digest
    assert one.bundle.manifest.tools_generated


def test_the_launcher_serves_with_the_packages_of_its_python(desk, tmp_path):
    """As a host runs the type uv: the entry point, with accord installed."""
    request = BundleRequest(author="Ada", is_started=False)
    written = write_bundle(find_source(desk / "desk.py"), tmp_path, request)
    folder = unpack_bundle(read_bundle(written.bundle.path), tmp_path / "out")
    env = {"PYTHONPATH": str(Path(accord.__file__).parents[1])}

    async def ask():
        main = [sys.executable, str(folder / "server/main.py")]
        async with connect(main, env=env, cwd="/") as client:
            return await client.call_tool("ask", {}, result_type=str)

    assert run(ask()) == "42 None"


def test_further_packages_can_be_named(desk, tmp_path):
    request = BundleRequest(author="Ada", is_started=False, requirements=("accord[http]", "x>1"))
    written = write_bundle(find_source(desk / "desk.py"), tmp_path, request)
    with zipfile.ZipFile(written.bundle.path) as archive:
        project = archive.read("pyproject.toml").decode()
    assert f'["accord=={__version__}", "accord[http]", "x>1"]' in project


# -- what is refused


def test_a_server_that_does_not_start_is_reported(tmp_path):
    (tmp_path / "desk.py").write_text("import gone_module\nraise SystemExit")
    with pytest.raises(HostsError, match=r"the server does not start: .*gone_module"):
        write_bundle(find_source(tmp_path / "desk.py"), tmp_path, ADA)


def test_a_bundle_without_author_is_refused(desk, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    with pytest.raises(HostsError, match="names its author: give one with --author"):
        write_bundle(find_source(desk / "desk.py"), tmp_path, BundleRequest(is_started=False))
    assert list(tmp_path.iterdir()) == []


def test_another_ending_is_refused(desk, tmp_path):
    request = BundleRequest(author="Ada", is_started=False)
    with pytest.raises(HostsError, match=r"the name of a bundle ends with \.mcpb"):
        write_bundle(find_source(desk / "desk.py"), tmp_path / "x.zip", request)


# -- files


def make(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_only_what_is_imported_is_packed_beside_a_file(tmp_path):
    make(tmp_path, a_py="import b, os, yaml\ntry:\n import gone\nexcept ImportError: pass")
    make(tmp_path, b_py="from pkg import x\nfrom space.mod import y", c_py="")
    make(tmp_path, pkg__data_txt="d", pkg__x_py="from . import z", space__mod_py="import a")
    (tmp_path / "pkg" / "__init__.py").touch()
    found = collect_modules(find_source(tmp_path / "a.py"))
    assert sorted(found.files) == [
        *("a.py", "b.py", "pkg/__init__.py", "pkg/data_txt", "pkg/x.py", "space/mod.py")
    ]
    assert found.imports == {"yaml", "gone"}


def test_the_whole_package_of_a_server_is_packed(tmp_path):
    make(tmp_path, pkg__sub__server_py="from pkg import other", pkg__data_json="{}")
    for name in ("pkg/__init__.py", "pkg/sub/__init__.py", "pkg/other.py", "pkg/.env"):
        (tmp_path / name).touch()
    found = collect_modules(find_source(tmp_path / "pkg/sub/server.py"))
    assert sorted(found.files) == [
        *("pkg/__init__.py", "pkg/data_json", "pkg/other.py"),
        *("pkg/sub/__init__.py", "pkg/sub/server.py"),
    ]
    assert found.left_out == ("pkg/.env",)


def test_further_files_can_be_included(tmp_path):
    make(tmp_path, a_py="", data__x_csv="", data__y_csv="")
    found = collect_modules(find_source(tmp_path / "a.py"), ["data/*"])
    assert sorted(found.files) == ["a.py", "data/x_csv", "data/y_csv"]
    with pytest.raises(HostsError, match=r"--include gone/\* matches no file"):
        collect_modules(find_source(tmp_path / "a.py"), ["gone/*"])


def test_a_file_that_is_not_python_is_reported(tmp_path):
    make(tmp_path, a_py="import b", b_py="def")
    with pytest.raises(HostsError, match=r"b.py is not Python"):
        collect_modules(find_source(tmp_path / "a.py"))


PROJECT = """
[project]
name = "my-desk"
version = "3.0"
description = "A desk"
authors = [{name = "Grace"}]
dependencies = ["accord", "msgspec>=0.1"]
"""


def test_a_project_is_packed_without_what_is_ignored(tmp_path):
    make(tmp_path, src__desk__server_py=SERVER.replace("helper", "desk.helper"))
    make(tmp_path, src__desk__helper_py="def answer(): return 1")
    (tmp_path / "src/desk/__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / ".mcpbignore").write_text("# comment\nnotes/\n*.tmp\n")
    for name in ("notes/x", "a.tmp", ".venv/pyvenv.cfg", "src/x.pyc", "key.pem", "uv.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "outside").symlink_to("/etc/hostname")
    source = find_source(tmp_path / "src/desk/server.py", "server")
    assert (source.project, source.root) == (tmp_path, tmp_path / "src")
    found = collect_project(source)
    assert sorted(found.files) == [
        *("pyproject.toml", "src/desk/__init__.py", "src/desk/helper.py"),
        *("src/desk/server.py", "uv.lock"),
    ]
    assert found.left_out == ("key.pem",)
    (tmp_path / "out").mkdir()
    request = BundleRequest(is_started=False)
    manifest = write_bundle(source, tmp_path / "out", request).bundle.manifest
    assert (manifest.name, manifest.version, manifest.author.name) == ("my-desk", "3.0", "Grace")
    assert manifest.server.entry_point == "accord_bundle_main.py"


def test_files_that_git_ignores_are_not_packed(tmp_path):
    if subprocess.run(["git", "init", "-q", tmp_path], check=False).returncode:
        pytest.skip("there is no git")
    make(tmp_path, a_py="", secret_notes="")
    (tmp_path / ".gitignore").write_text("secret_notes\n")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    found = collect_project(find_source(tmp_path / "a.py"))
    assert sorted(found.files) == ["a.py", "pyproject.toml"]


def test_a_project_says_itself_what_it_needs(tmp_path):
    make(tmp_path, a_py="")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    request = BundleRequest(is_started=False, requirements=("x",))
    with pytest.raises(HostsError, match="says what the project needs"):
        write_bundle(find_source(tmp_path / "a.py"), tmp_path, request)


def test_a_file_that_would_be_overwritten_is_reported(tmp_path):
    make(tmp_path, a_py="")
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    with pytest.raises(HostsError, match="exists, and is what accord would write"):
        write_bundle(find_source(tmp_path / "a.py"), tmp_path, BundleRequest(is_started=False))


# -- packages


def test_requirements_are_those_that_are_declared(tmp_path):
    make(tmp_path, a_py='# /// script\n# dependencies = [\n#   "httpx>=1",\n# ]\n# ///\n')
    make(tmp_path, b_py="")
    assert read_requirements(find_source(tmp_path / "a.py")) == ["httpx>=1"]
    assert read_requirements(find_source(tmp_path / "b.py")) is None
    project = ServerSource(
        root=tmp_path,
        file=tmp_path / "b.py",
        project=tmp_path,
        settings={"dependencies": ["accord"]},
    )
    assert read_requirements(project) == ["accord"]


def test_requirements_are_found_by_what_is_imported():
    found = requirements_of({"accord", "pytest", "gone_module"})
    assert found[0] == f"accord=={__version__}"
    assert found[1].startswith("pytest==")
    assert len(found) == 2


def test_packages_bring_those_that_they_need():
    found = copy_packages(["pytest"])
    assert {each.split()[0] for each in found.names} >= {"accord", "msgspec", "pluggy", "pytest"}
    assert "pluggy/__init__.py" in found.files
    assert found.is_compiled


def test_a_package_that_is_not_installed_is_reported():
    with pytest.raises(HostsError, match="the package gone-thing is not installed here"):
        copy_packages(["gone.thing>=1"])
    assert copy_packages(["gone-thing; sys_platform == 'win32'"]).names[0].startswith("accord")


def test_a_package_that_is_a_link_to_its_source_is_packed(tmp_path, monkeypatch):
    site, source = tmp_path / "site", tmp_path / "source"
    info = site / "far_thing-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far-thing\nVersion: 1.0\n")
    (info / "RECORD").write_text("far.pth,,\nfar_thing-1.0.dist-info/METADATA,,\n")
    (info / "top_level.txt").write_text("far_thing\nfar_single\nfar_gone\n")
    make(source, far_thing__inner_py="", far_single_py="")
    (source / "far_thing" / "__init__.py").touch()
    monkeypatch.syspath_prepend(site)
    monkeypatch.syspath_prepend(source)
    found = copy_packages(["far-thing"])
    own = sorted(each for each in found.files if each.startswith("far"))
    assert own == [
        *("far_single.py", "far_thing-1.0.dist-info/METADATA"),
        *("far_thing/__init__.py", "far_thing/inner.py"),
    ]


def test_extras_bring_their_packages():
    plain = {each.split()[0] for each in copy_packages(["accord"]).names}
    more = {each.split()[0] for each in copy_packages(["accord[cli]"]).names}
    assert more - plain >= {"rich"}


def test_a_requirement_that_cannot_be_read_is_reported():
    with pytest.raises(HostsError, match="cannot be read"):
        copy_packages(["!"])


def test_a_broken_project_file_is_reported(tmp_path):
    make(tmp_path, a_py="")
    (tmp_path / "pyproject.toml").write_text("[")
    with pytest.raises(HostsError, match="cannot be read"):
        find_source(tmp_path / "a.py")


def test_a_broken_block_of_a_script_is_reported(tmp_path):
    make(tmp_path, a_py="# /// script\n# [\n# ///\n")
    with pytest.raises(HostsError, match="is not TOML"):
        read_requirements(find_source(tmp_path / "a.py"))


def test_a_project_that_lacks_accord_is_remarked(tmp_path):
    make(tmp_path, a_py="")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["y"]\n')
    (tmp_path / "out").mkdir()
    request = BundleRequest(author="Ada", is_started=False)
    written = write_bundle(find_source(tmp_path / "a.py"), tmp_path / "out", request)
    assert "pyproject.toml does not name accord: add it to dependencies" in written.remarks
