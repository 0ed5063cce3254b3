"""Manifests of all versions, and the entries that they become."""

import json

import msgspec
import pytest

from accord_tools.hosts.bundles.archive import Bundle, BundleFile
from accord_tools.hosts.bundles.entry import bundle_folder, bundle_target, satisfies
from accord_tools.hosts.bundles.manifest import read_manifest
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.launching.installation import AccordCommand
from accord_tools.hosts.targets import TargetReader
from hosts.launch_machine import make_machine, make_program
from support.tables import cases

ACCORD = AccordCommand(words=("/venv/bin/python", "-P", "-m", "accord"), kind="venv")
BASE = {
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


def with_server(**members):
    return {**BASE, "server": {**BASE["server"], **members}}


def with_command(command="node", args=(), env=None, **settings):
    config = {"command": command, "args": list(args), "env": env or {}}
    return {**with_server(mcp_config=config), "user_config": settings}


def read(document):
    return read_manifest(json.dumps(document).encode())


def setting(kind="string", **members):
    return {"type": kind, "title": "T", "description": "D", **members}


# -- reading


@cases("version", ["0.1", "0.2", "0.3", "0.4"])
def test_every_version_is_read(version):
    manifest, remarks = read({**BASE, "manifest_version": version})
    assert (manifest.manifest_version, remarks) == (version, ())


def test_the_older_name_of_the_version_is_read():
    older = {**BASE, "dxt_version": "0.1"}
    del older["manifest_version"]
    manifest, remarks = read(older)
    assert manifest.manifest_version == "0.1"
    assert "older name" in remarks[0]


@cases(
    ("document", "said"),
    [
        ([], "is not an object"),
        ({}, "manifest_version is missing"),
        ({**BASE, "manifest_version": "9"}, "is '9'; known are 0.1, 0.2, 0.3, 0.4"),
        ({**BASE, "name": 3}, "name: expected str, got int"),
        ({**BASE, "name": " "}, "name is empty"),
        ({**BASE, "version": "1\n"}, "version is empty, too long, or has control"),
        ({**BASE, "author": {}}, "author: name is missing"),
        ({**BASE, "server": {}}, "server: type is missing"),
        (with_server(type="perl"), r"server.type: invalid enum value 'perl'"),
        (with_server(entry_point="../x"), "server.entry_point '../x': it leads out"),
        (with_server(entry_point="/x"), "it is not relative"),
        (with_server(mcp_config=None), "mcp_config is missing, which the type node needs"),
        (with_server(mcp_config={"command": " "}), "command is empty"),
        (with_command(a=setting("text")), r"user_config\[...\].type: invalid enum"),
        (with_command(a=setting("number", default="x")), "a.default is not a number"),
        (with_command(a=setting("number", default=5, max=3)), "a.default is more than 3"),
        (with_command(a=setting("file", default=["x"])), "is a list, but multiple is not set"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused_with_the_member(document, said):
    with pytest.raises(HostsError, match=f"manifest.json.*{said}"):
        read(document)


def test_a_manifest_that_is_not_json_is_refused():
    for data in (b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(HostsError, match="is not JSON"):
            read_manifest(data)


@cases(
    ("document", "said"),
    [
        ({**BASE, "id": "x"}, "id is not a member of a manifest"),
        ({**BASE, "manifest_version": "0.1", "privacy_policies": []}, "known since version 0.2"),
        ({**BASE, "version": "latest"}, "has not the form 1.2.3"),
        (with_server(type="uv"), "uv is known since version 0.4"),
        (with_command(args=["${user_config.x}"]), "args.0. has .*, which user_config lacks"),
        (with_command(env={"A": "${LOCAL}"}), "env.A has .*, which no host fills in"),
        (with_command(a={"type": "string"}), "lacks a title or a description"),
        (with_command(a=setting(sensitive=True, default="x")), "has a default, a secret"),
    ],
)
def test_faults_that_hosts_may_notice_are_remarks(document, said):
    import re

    _, remarks = read(document)
    assert re.search(said, " ".join(remarks))


# -- entries


def target(tmp_path, document, files=("server/index.js",), system="linux", **values):
    manifest, remarks = read(document)
    machine = make_machine(tmp_path, system)
    make_program(tmp_path / "bin" / "node", "#!/bin/sh\necho v20.1.0\n")
    reader = TargetReader(machine=machine, accord=ACCORD, values=values)
    bundle = Bundle(
        path=tmp_path / "x.mcpb",
        manifest=manifest,
        files=tuple(BundleFile(name, 1, 0o644) for name in files),
        digest="",
        remarks=remarks,
    )
    return bundle_target(bundle, tmp_path / "place", reader)


def test_the_folder_of_the_bundle_is_filled_in(tmp_path):
    found = target(tmp_path, BASE)
    assert found.command == ("node", f"{tmp_path}/place/server/index.js")
    assert (found.name, found.title) == ("desk", "desk")
    assert found.bundle is not None


def test_relative_paths_of_the_bundle_are_completed(tmp_path):
    document = with_command("server/tool", ["--config", "./data.json", "other"])
    found = target(tmp_path, document, ["server/tool", "data.json"])
    place = tmp_path / "place"
    assert found.command == (*(f"{place}/server/tool", "--config", f"{place}/data.json", "other"),)


def test_folders_of_the_user_are_filled_in(tmp_path):
    args = ["${HOME}", "${DESKTOP}${/}x", "${DOCUMENTS}${pathSeparator}y", "${DOWNLOADS}"]
    home = tmp_path / "home"
    assert target(tmp_path, with_command(args=args)).command[1:] == (
        *(str(home), f"{home}/Desktop/x", f"{home}/Documents/y", f"{home}/Downloads"),
    )


def test_the_command_of_the_platform_is_taken(tmp_path):
    config = {
        "command": "tool",
        "args": ["a"],
        "env": {"A": "1"},
        "platform_overrides": {
            "win32": {"command": "bin/tool", "args": ["b"]},
            "darwin": {"env": {"A": "2"}},
        },
    }
    document = with_server(type="binary", mcp_config=config)
    files = ["bin/tool.exe"]
    windows = target(tmp_path, document, files, "windows")
    assert windows.command == (str(tmp_path / "place" / "bin" / "tool.exe"), "b")
    mac = target(tmp_path, document, files, "macos")
    assert (mac.command, mac.env) == (("tool", "a"), {"A": "2"})
    assert target(tmp_path, document, files).env == {"A": "1"}


def test_a_bundle_for_other_systems_is_refused(tmp_path):
    document = {**BASE, "compatibility": {"platforms": ["darwin", "win32"]}}
    with pytest.raises(HostsError, match="is for macOS and Windows, and this is Linux"):
        target(tmp_path, document)
    assert target(tmp_path, document, system="macos")


def test_a_secret_is_a_variable_and_never_a_literal(tmp_path):
    document = with_command(
        env={"DESK_KEY": "${user_config.api_key}"},
        api_key=setting(sensitive=True, required=True),
    )
    for values in ({}, {"api_key": "hidden"}, {"DESK_KEY": "hidden"}):
        found = target(tmp_path, document, **values)
        assert found.env == {"DESK_KEY": "${env:DESK_KEY}"}
        (needed,) = found.needed
        assert (needed.name, needed.key, needed.is_secret) == ("DESK_KEY", "api_key", True)
        assert "hidden" not in repr(found)


def test_values_defaults_and_absent_values_are_filled_in(tmp_path):
    document = with_command(
        args=["--level=${user_config.level}", "--db", "${user_config.db}", "${user_config.dirs}"],
        env={"ON": "${user_config.on}", "OFF": "${user_config.absent}"},
        level=setting("number", default=3, max=9),
        db=setting("file"),
        on=setting("boolean", default=True),
        absent=setting(),
        dirs=setting("directory", multiple=True, default=["${HOME}/a", "${HOME}/b"]),
    )
    home = tmp_path / "home"
    found = target(tmp_path, document)
    assert found.command[1:] == ("--level=3", f"{home}/a", f"{home}/b")
    assert found.env == {"ON": "true"}
    assert "T can be set: --env DB=VALUE" in found.remarks
    given = target(tmp_path, document, level="5", DB="x.db", on="no", absent="z", dirs="/1:/2")
    project = tmp_path / "project"
    assert given.command[1:] == ("--level=5", "--db", f"{project}/x.db", "/1", "/2")
    assert given.env == {"ON": "false", "OFF": "z"}
    assert f"there is no {project}/x.db" in given.remarks


def test_a_required_value_is_asked_for(tmp_path):
    document = with_command(args=["${user_config.dir}"], dir=setting("directory", required=True))
    found = target(tmp_path, document)
    assert found.command[1:] == ("${env:DIR}",)
    assert [(each.name, each.type) for each in found.needed] == [("DIR", "directory")]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("number", "x", "is not a number"),
        ("number", "99", "is more than 9"),
        ("boolean", "x", "is neither true nor false"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(tmp_path, kind, value, said):
    document = with_command(args=["${user_config.a}"], a=setting(kind, max=9))
    with pytest.raises(HostsError, match=f"the value of a {said}"):
        target(tmp_path, document, a=value)


def test_several_values_in_one_text_are_joined_with_a_remark(tmp_path):
    document = with_command(
        env={"DIRS": "${user_config.dirs}"}, dirs=setting("directory", multiple=True)
    )
    found = target(tmp_path, document, dirs="/1:/2")
    assert found.env == {"DIRS": "/1:/2"}
    assert "the values of dirs are joined with :" in found.remarks


def test_a_python_server_gets_the_python_of_accord(tmp_path):
    document = with_server(type="python", mcp_config={"command": "python", "args": ["x"]})
    assert target(tmp_path, document).command == ("/venv/bin/python", "x")


def test_a_python_server_for_another_version_gets_one_of_the_path(tmp_path):
    document = {
        **with_server(type="python", mcp_config={"command": "python3"}),
        "compatibility": {"runtimes": {"python": ">=3.8,<3.10"}},
    }
    found = target(tmp_path, document)
    assert found.command == ("python3",)
    assert "needs Python >=3.8,<3.10, which was not found" in found.remarks[-1]
    make_program(tmp_path / "bin" / "python3.12")
    python = make_program(tmp_path / "bin" / "python3.9")
    assert target(tmp_path, document).command == (str(python),)


def test_a_project_of_uv_is_run_by_uv(tmp_path):
    document = {**with_server(type="uv", entry_point="src/x.py"), "manifest_version": "0.4"}
    del document["server"]["mcp_config"]
    found = target(tmp_path, document)
    assert found.command == ("uv", "run", "--directory", f"{tmp_path}/place", "src/x.py")


def test_a_node_that_is_too_old_is_remarked(tmp_path):
    document = {**BASE, "compatibility": {"runtimes": {"node": ">=22"}}}
    assert "needs Node.js >=22; " in target(tmp_path, document).remarks[-1]
    document = {**BASE, "compatibility": {"runtimes": {"node": ">=16.0.0"}}}
    assert target(tmp_path, document).remarks == ()


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("desk", "1.0.0", "desk@1.0.0"),
        ("../../x", "../y", "x@y"),
        ("My Desk", "1.0 beta/2", "My-Desk@1.0-beta-2"),
    ],
)
def test_the_folder_of_a_bundle_is_a_plain_name(tmp_path, name, version, expected):
    manifest, _ = read(BASE)
    manifest = msgspec.structs.replace(manifest, name=name, version=version)
    bundle = Bundle(path=tmp_path, manifest=manifest, files=(), digest="")
    folder = bundle_folder(bundle, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert folder.name == expected
    assert folder.parent.name == "bundles"


@cases(
    ("version", "conditions", "expected"),
    [
        ("3.11.2", ">=3.8,<4.0", True),
        ("3.11.2", ">=3.8.0 <4", True),
        ("3.11.2", ">= 3.12", False),
        ("3.11", "==3.11.*", True),
        ("3.12", "==3.11.*", False),
        ("3.11.2", "!=3.11", False),
        ("v20.1.0", "^20.0.0", True),
        ("v21.0.0", "^20.0.0", False),
        ("0.2.5", "^0.2.3", True),
        ("0.3.0", "^0.2.3", False),
        ("1.2.9", "~1.2.3", True),
        ("1.3.0", "~1.2.3", False),
        ("3.11.2", "~=3.10", True),
        ("4.0", "~=3.10", False),
        ("16.0.0", ">20 || 16.x", True),
        ("1.0", "*", True),
        ("1.0", "", True),
        ("1.0", "soon", None),
        ("new", ">=1", None),
    ],
)
def test_conditions_on_versions_are_understood(version, conditions, expected):
    assert satisfies(version, conditions) is expected
