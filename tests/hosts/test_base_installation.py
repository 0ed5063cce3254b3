"""`accord add` without any extra: a Python that finds accord and msgspec alone."""

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import msgspec
import pytest

import accord
import accord_tools
from support.waiting import LONG

SERVER = "from accord import Server\n\nserver = Server('desk')\n"


class BaseInstallation:
    """A user with the base install, two servers and the folders of three hosts."""

    def __init__(self, folder):
        self.home = folder / "home"
        for name in (".cursor", ".codex", ".config/goose"):
            (self.home / name).mkdir(parents=True)
        self.packages = folder / "packages"
        self.packages.mkdir()
        # Its metadata too: commands are found by entry points.
        info = next(each for each in distribution("accord").files if each.name == "METADATA")
        modules = (Path(each.__file__) for each in (accord, accord_tools, msgspec))
        for file in (*modules, Path(info.locate())):
            (self.packages / file.parent.name).symlink_to(file.parent)
        (folder / "desk.py").write_text(SERVER)
        self.folder = folder

    def run(self, *words):
        """Run accord without the packages of this environment."""
        paths = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.packages)}
        kept = {key: text for key, text in os.environ.items() if key.startswith("COVERAGE")}
        return subprocess.run(
            [sys.executable, "-S", "-P", "-m", "accord", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            cwd=self.folder,
            env={**kept, **paths},
            timeout=LONG,
            check=False,
        )


@pytest.fixture
def base(tmp_path):
    return BaseInstallation(tmp_path)


def test_files_of_json_and_toml_need_no_extra(base):
    hosts = ("--host", "cursor", "--host", "codex")
    done = base.run("add", "desk.py", *hosts, "--yes", "--no-check")
    assert done.returncode == 0, done.stderr
    json_text = (base.home / ".cursor/mcp.json").read_text()
    toml_text = (base.home / ".codex/config.toml").read_text()
    assert json.loads(json_text)["mcpServers"]["desk"]["args"][-1] == str(base.folder / "desk.py")
    assert tomllib.loads(toml_text)["mcp_servers"]["desk"]["args"][-2] == "run"
    assert "desk  stdio" in base.run("hosts").stdout
    done = base.run("remove", "desk", "--yes")
    assert done.returncode == 0, done.stderr
    assert not (base.home / ".cursor/mcp.json").exists()


def test_a_file_of_yaml_names_the_extra_it_needs_and_others_are_written(base):
    done = base.run("add", "desk.py", "--all", "--yes", "--no-check")
    assert done.returncode == 2
    assert "Goose: " in done.stderr
    assert "a file of YAML needs the extra 'yaml'" in done.stderr
    assert "Traceback" not in done.stderr
    assert (base.home / ".cursor/mcp.json").exists()
    assert not (base.home / ".config/goose/config.yaml").exists()


def test_a_url_is_added_untried_and_does_not_stop_the_check_of_others(base):
    done = base.run("add", "https://desk.example/mcp", "--host", "cursor", "--yes")
    assert done.returncode == 0, done.stderr
    assert "the URL was not tried: checking over HTTP needs the extra 'http'" in done.stdout
    assert base.run("add", "desk.py", "--host", "codex", "--yes", "--no-check").returncode == 0
    shown = base.run("hosts", "check", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("launch-skipped") == 1
    assert '"server": "desk"' in shown.stdout


def test_a_host_without_urls_does_not_stop_the_others(base):
    (base.home / ".config/Claude").mkdir()
    done = base.run("add", "https://desk.example/mcp", "--print", "claude-desktop")
    assert done.returncode == 2
    assert "`accord proxy`, which would connect to it, needs the extra 'http'" in done.stderr
    done = base.run("add", "https://desk.example/mcp", "--all", "--yes", "--no-check")
    assert done.returncode == 2
    assert "desk.example" in (base.home / ".cursor/mcp.json").read_text()
    assert not (base.home / ".config/Claude/claude_desktop_config.json").exists()
