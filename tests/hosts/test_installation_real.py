"""Real installations by pip, pipx, uv tool and uvx: the words that launch accord, and upgrades."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from accord.version import __version__
from hosts.test_installation_kinds import ASK
from support.waiting import LONG

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parents[2]


def call(*words, env=None, cwd="/"):
    done = subprocess.run(
        [str(each) for each in words],
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env=env,
        timeout=5 * LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """The folder of uv and pipx, and a wheel of accord."""
    folder = tmp_path_factory.mktemp("tools")
    venv.create(folder / "v", with_pip=True, symlinks=True)
    pip = [folder / "v/bin/python", "-m", "pip", "--quiet"]
    try:
        call(*pip, "install", "uv", "pipx")
        call(*pip, "wheel", "--no-deps", "-w", folder, ROOT)
    except AssertionError as error:
        pytest.skip(f"uv and pipx cannot be installed: {error}")
    (wheel,) = folder.glob("accord-*.whl")
    return folder / "v/bin", wheel


@pytest.fixture
def home(tmp_path, tools):
    """The environment of a user of their own, with uv and pipx in PATH."""
    # Proxies and certificates stay; where tools keep their files, and Python's own paths, do not.
    dropped = ("PYTHON", "XDG_", "VIRTUAL_ENV", "PIPX_", "UV_CACHE", "UV_TOOL")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
    path = os.pathsep.join([str(tools[0]), "/usr/bin", "/bin"])
    return {**kept, "HOME": str(tmp_path), "PATH": path}


def ask(python, env):
    return json.loads(call(python, "-c", ASK, env=env))


def launch(words):
    assert call(*words, "--version", env={}) == f"accord {__version__}\n"


def test_pipx_is_launched_before_and_after_it_is_installed_again(tmp_path, tools, home):
    bin_folder, wheel = tools
    install = (bin_folder / "pipx", "install", "--force", wheel)
    call(*install, env=home)
    (place,) = tmp_path.glob(".local/**/pipx/venvs/accord")
    kind, words, env = ask(place / "bin/python", home)
    assert (kind, words[0], env) == ("pipx", str(place / "bin/python"), {})
    launch(words)
    call(bin_folder / "pipx", "uninstall", "accord", env=home)
    call(*install, env=home)
    launch(words)


def test_a_tool_of_uv_is_launched_before_and_after_it_is_installed_again(tmp_path, tools, home):
    bin_folder, wheel = tools
    install = (bin_folder / "uv", "tool", "install", "--force", wheel)
    call(*install, env=home)
    place = tmp_path / ".local/share/uv/tools/accord"
    kind, words, env = ask(place / "bin/python", home)
    assert (kind, words[0], env) == ("uv-tool", str(place / "bin/python"), {})
    launch(words)
    call(bin_folder / "uv", "tool", "uninstall", "accord", env=home)
    call(*install, env=home)
    launch(words)


def test_uvx_is_launched_by_uvx_also_after_its_cache_is_deleted(tmp_path, tools, home):
    bin_folder, wheel = tools
    shown = call(bin_folder / "uvx", "--from", wheel, "python", "-c", ASK, env=home)
    kind, words, env = json.loads(shown)
    assert (kind, words[0], env) == ("uvx", str(bin_folder / "uvx"), {})
    assert words[4].startswith("accord")
    shutil.rmtree(tmp_path / ".cache")
    # A Python has to be somewhere, unless uv may download one.
    less = {**home, "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin"}
    assert call(*words, "--version", env=less) == f"accord {__version__}\n"


def test_pipx_run_is_a_throw_away_environment(tmp_path, tools, home):
    bin_folder, wheel = tools
    call(bin_folder / "pipx", "run", "--spec", wheel, "accord", "--version", env=home)
    (python,) = tmp_path.glob(".cache/pipx/*/bin/python")
    kind, words, _ = ask(python, home)
    assert (kind, words[0]) == ("uvx", str(bin_folder / "uvx"))


def test_an_environment_is_launched_after_it_was_made_again(tmp_path, tools, home):
    _, wheel = tools
    place = tmp_path / "my env"

    def make():
        venv.create(place, with_pip=True, symlinks=True)
        call(place / "bin/python", "-m", "pip", "--quiet", "install", wheel, env=home)

    make()
    kind, words, env = ask(place / "bin" / f"python3.{sys.version_info[1]}", home)
    assert (kind, words[0], env) == ("venv", str(place / "bin/python"), {})
    shutil.rmtree(place)
    make()
    launch(words)
