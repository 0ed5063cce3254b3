"""Real installations by pip, pipx, uv and from a checkout: the entry of `accord add`, and upgrades.

Each adds a server in a folder with a blank in its name, and launches the entry as it is written,
from another folder and with an empty environment; then Python or accord is installed again.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pytest

from support.waiting import LONG

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parents[2]
OWN = f"3.{sys.version_info[1]}"
SERVER = """\
from accord import Server

server = Server("desk")


@server.tool
def add(a: int, b: int) -> int:
    return a + b
"""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def call(*words, env=None, cwd="/", input=""):
    done = subprocess.run(
        [str(each) for each in words],
        input=input,
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env=env,
        timeout=5 * LONG,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def find_pythons():
    """Return a Python of this version, and one of another if there is one, without their links."""
    found = {OWN: Path(sys.base_prefix, "bin", f"python{OWN}")}
    for version in ("3.13", "3.12", "3.11"):
        places = [*Path.home().glob(f".pyenv/versions/{version}.*/bin"), Path("/usr/bin")]
        places += [Path(each) for each in os.get_exec_path()]
        for place in places:
            python = place / f"python{version}"
            if version not in found and python.is_file():
                words = [python, "-c", "import ensurepip, venv"]
                if subprocess.run(words, capture_output=True, check=False).returncode == 0:
                    found[version] = python
    return found[OWN], next((path for key, path in found.items() if key != OWN), found[OWN])


PYTHON, OTHER_PYTHON = find_pythons()


@pytest.fixture(scope="module")
def lasting():
    """A folder that is not below one for temporary files, which accord advises against."""
    place = Path.home()
    if place.is_relative_to(tempfile.gettempdir()):
        pytest.skip("the folder of the user is a temporary one")
    with tempfile.TemporaryDirectory(prefix=".accord-test-", dir=place) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def tools(lasting):
    """The folder of uv and pipx, and a wheel of accord."""
    folder = lasting / "tools"
    venv.create(folder / "v", with_pip=True, symlinks=True)
    pip = [folder / "v/bin/python", "-m", "pip", "--quiet"]
    try:
        call(*pip, "install", "uv", "pipx")
        call(*pip, "wheel", "--no-deps", "-w", folder, ROOT)
    except AssertionError as error:
        pytest.skip(f"uv and pipx cannot be installed: {error}")
    (wheel,) = folder.glob("accord-*.whl")
    return folder / "v/bin", wheel


class Home:
    """A user of their own, with uv and pipx in PATH and a server in `my servers`."""

    def __init__(self, folder, bin_folder):
        self.folder = folder
        self.project = folder / "my servers"
        self.project.mkdir()
        (self.project / "server.py").write_text(SERVER)
        # Proxies and certificates stay; where tools keep their files, and Python's paths, do not.
        dropped = ("PYTHON", "XDG_", "VIRTUAL_ENV", "PIPX_", "UV_CACHE", "UV_TOOL")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
        path = os.pathsep.join([str(bin_folder), "/usr/bin", "/bin"])
        self.env = {**kept, "HOME": str(folder), "PATH": path}

    def run(self, *words):
        return call(*words, env=self.env, cwd=self.project)

    def add(self, *accord):
        """Add the server to Cursor, let accord check it, and launch it."""
        self.run(*accord, "add", "server.py", "--name", "desk", "--host", "cursor", "--yes")
        assert "ok" in self.run(*accord, "hosts", "check", "--host", "cursor")
        self.launch()
        return self.entry

    @property
    def entry(self):
        return json.loads((self.folder / ".cursor/mcp.json").read_text())["mcpServers"]["desk"]

    def launch(self, **env):
        """Launch the entry as it is written, in an environment that has nothing else."""
        entry = self.entry
        words = [entry["command"], *entry["args"]]
        env = {**env, **entry.get("env", {})}
        shown = call(*words, env=env, input=json.dumps(INITIALIZE) + "\n")
        assert json.loads(shown.splitlines()[0])["result"]["serverInfo"]["name"] == "desk"


@pytest.fixture
def home(lasting, tools):
    return Home(Path(tempfile.mkdtemp(dir=lasting)), tools[0])


def make_environment(home, place, python, *requirements):
    shutil.rmtree(place, ignore_errors=True)
    call(python, "-m", "venv", place)
    home.run(place / "bin/python", "-m", "pip", "--quiet", "install", *requirements)


def test_an_environment_is_launched_after_it_was_made_with_another_python(tools, home):
    place = home.folder / "my env"
    make_environment(home, place, PYTHON, tools[1])
    entry = home.add(place / "bin/accord")
    assert entry["command"] == str(place / "bin/python")
    assert "env" not in entry
    make_environment(home, place, OTHER_PYTHON, tools[1])
    home.launch()


def test_a_user_installation_is_launched_from_anywhere(tools, home):
    pip = (PYTHON, "-m", "pip", "--quiet", "install", "--user", "--break-system-packages")
    home.run(*pip, tools[1])
    entry = home.add(home.folder / ".local/bin/accord")
    assert entry["command"] == str(PYTHON)
    home.run(*pip, "--force-reinstall", "--no-deps", tools[1])
    home.launch()


def test_pipx_is_launched_after_it_was_installed_with_another_python(tools, home):
    home.run("pipx", "install", "--python", PYTHON, tools[1])
    entry = home.add(home.folder / ".local/bin/accord")
    assert "pipx/venvs/accord/bin/python" in entry["command"]
    home.run("pipx", "reinstall", "--python", OTHER_PYTHON, "accord")
    home.launch()
    home.run("pipx", "upgrade", "accord")
    home.launch()


def test_a_tool_of_uv_is_launched_after_it_was_upgraded_to_another_python(tools, home):
    home.run("uv", "tool", "install", "--python", PYTHON, tools[1])
    entry = home.add(home.folder / ".local/bin/accord")
    assert entry["command"] == str(home.folder / ".local/share/uv/tools/accord/bin/python")
    home.run("uv", "tool", "upgrade", "--python", OTHER_PYTHON, "accord")
    home.launch()


@pytest.mark.parametrize(
    "words",
    ["uvx --from WHEEL", "uv run --no-project --with WHEEL", "pipx run --spec WHEEL"],
    ids=["uvx", "uv-run", "pipx-run"],
)
def test_a_throw_away_environment_is_launched_after_the_caches_are_deleted(tools, home, words):
    head, *rest = words.replace("WHEEL", str(tools[1])).split()
    at = 0 if head == "uvx" else 1
    entry = home.add(head, *rest[:at], "--python", PYTHON, *rest[at:], "accord")
    assert entry["command"] == str(tools[0] / "uvx")
    shutil.rmtree(home.folder / ".cache")
    home.launch(HOME=str(home.folder))


def test_the_environment_of_a_project_of_uv_is_launched_after_another_python_is_chosen(tools, home):
    (home.project / "pyproject.toml").write_text(
        '[project]\nname = "desk"\nversion = "1"\nrequires-python = ">=3.11"\n'
    )
    home.run("uv", "python", "pin", PYTHON)
    home.run("uv", "add", tools[1])
    entry = home.add("uv", "run", "accord")
    assert entry["command"] == str(home.project / ".venv/bin/python")
    home.run("uv", "python", "pin", OTHER_PYTHON)
    home.run("uv", "sync")
    home.launch()


def test_a_tool_leaves_the_server_to_an_environment_of_its_own_that_has_accord(tools, home):
    """The packages that the server imports are there, not with the tool."""
    home.run("uv", "tool", "install", "--python", PYTHON, tools[1])
    make_environment(home, home.project / ".venv", OTHER_PYTHON, tools[1])
    entry = home.add(home.folder / ".local/bin/accord")
    assert entry["command"] == str(home.project / ".venv/bin/python")


def test_a_checkout_is_launched_after_its_environment_was_made_with_another_python(home):
    place = home.folder / "v"
    make_environment(home, place, PYTHON, "--editable", ROOT)
    entry = home.add(place / "bin/accord")
    assert entry["command"] == str(place / "bin/python")
    make_environment(home, place, OTHER_PYTHON, "--editable", ROOT)
    home.launch()
