"""How accord was installed, from made-up folders; and in one real virtual environment."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import msgspec
import pytest

from accord.cli.installation import python_words, stable_python
from accord.version import __version__
from accord_tools.hosts.definition import HostsError, Machine
from accord_tools.hosts.launching.installation import RunningPython, accord_command
from hosts.launch_machine import make_machine, make_program
from support.waiting import LONG

SOURCE = Path(__file__).parents[2] / "src"


def make_python(prefix, *markers, name="python", **more):
    executable = make_program(prefix / "bin" / name)
    for marker in markers:
        (prefix / marker).parent.mkdir(parents=True, exist_ok=True)
        (prefix / marker).touch()
    given = {
        "executable": executable,
        "prefix": prefix,
        "base_prefix": Path("/usr"),
        "package": prefix / "lib" / "python3.11" / "site-packages" / "accord",
    }
    return RunningPython(**{**given, **more})


@pytest.mark.parametrize(
    ("place", "markers", "kind"),
    [
        ("project/.venv", ["pyvenv.cfg"], "venv"),
        ("conda/envs/desk", ["conda-meta/history"], "venv"),
        (".local/share/pipx/venvs/accord", ["pyvenv.cfg", "pipx_metadata.json"], "pipx"),
        (".local/share/uv/tools/accord", ["pyvenv.cfg", "uv-receipt.toml"], "uv-tool"),
        # macOS
        ("Library/Application Support/pipx/venvs/accord", ["pipx_metadata.json"], "pipx"),
        ("Library/Python/3.12", [], "pip"),
        ("usr", [], "pip"),
    ],
)
def test_an_installation_that_stays_is_launched_by_its_own_python(tmp_path, place, markers, kind):
    python = make_python(tmp_path / place, *markers)
    found = accord_command(make_machine(tmp_path), python)
    assert found.kind == kind
    assert found.words == (str(tmp_path / place / "bin/python"), "-P", "-m", "accord")
    assert not found.env


def test_a_checkout_is_launched_with_its_folder_and_a_remark(tmp_path):
    python = make_python(
        tmp_path / ".venv", "pyvenv.cfg", is_editable=True, folders=("/code/accord/src",)
    )
    found = accord_command(make_machine(tmp_path), python)
    assert (found.kind, found.env) == ("checkout", {"PYTHONPATH": "/code/accord/src"})
    assert "the source of accord" in found.remarks[0]


@pytest.mark.parametrize(
    ("place", "markers", "kind"),
    [
        ("desk/.venv", ["pyvenv.cfg"], "venv"),
        ("pipx/venvs/accord", ["pyvenv.cfg", "pipx_metadata.json"], "pipx"),
        ("AppData/Local/pipx/pipx/venvs/accord", ["pipx_metadata.json"], "pipx"),
        ("AppData/Roaming/uv/tools/accord", ["pyvenv.cfg", "uv-receipt.toml"], "uv-tool"),
    ],
)
def test_windows_launches_python_of_the_folder_of_scripts(tmp_path, place, markers, kind):
    prefix = tmp_path / "Ann Lee" / place
    python = make_python(prefix, *markers)
    started = make_program(prefix / "Scripts" / "pythonw.exe")
    console = make_program(prefix / "Scripts" / "python.exe")
    found = accord_command(
        make_machine(tmp_path, "windows"), msgspec.structs.replace(python, executable=started)
    )
    assert (found.kind, found.words[0], found.env) == (kind, str(console), {})


THROW_AWAY = [
    ".cache/uv/archive-v0/x1y2",
    ".cache/uv/builds-v0/.tmpAb",
    ".cache/uv/environments-v2/x1y2",
    ".cache/pipx/325e0776e97b5eb",
    "Library/Caches/pipx/325e0776e97b5eb",
    "pipx/.cache/325e0776e97b5eb",
    "AppData/Local/uv/cache/archive-v0/x1y2",
    "AppData/Local/pipx/pipx/Cache/325e0776e97b5eb",
]


@pytest.mark.parametrize("place", THROW_AWAY)
def test_a_throw_away_environment_is_replaced_by_uvx(tmp_path, place):
    machine = make_machine(tmp_path)
    uvx = make_program(tmp_path / "bin" / "uvx")
    # `pipx run` has the same file as `pipx install`.
    python = make_python(
        tmp_path / place,
        "pyvenv.cfg",
        "pipx_metadata.json",
        requirement="accord[cli]==0.2",
        version="3.12",
    )
    found = accord_command(machine, python)
    assert found.kind == "uvx"
    install = ("--python", "3.12", "--from", "accord[cli]==0.2")
    assert found.words == (str(uvx), *install, "python", "-P", "-m", "accord")
    # Else uv would download a Python that is not in the short PATH of a host.
    assert found.env == {"UV_PYTHON_SEARCH_PATH": "/usr/bin:/usr/local/bin:/bin"}
    assert "will be deleted" in found.remarks[0]


@pytest.mark.parametrize(("system", "ending"), [("linux", ""), ("macos", ""), ("windows", ".exe")])
def test_uvx_that_was_started_by_its_path_is_found(tmp_path, system, ending):
    uvx = make_program(tmp_path / "Ann Lee" / f"uvx{ending}")
    machine = make_machine(tmp_path, system, UV=str(uvx.with_name(f"uv{ending}")))
    found = accord_command(machine, make_python(tmp_path / THROW_AWAY[0], "pyvenv.cfg"))
    assert found.words[0] == str(uvx)
    # Windows has a list of its Pythons, beside PATH.
    assert list(found.env) == ([] if system == "windows" else ["UV_PYTHON_SEARCH_PATH"])


def test_uvx_finds_its_index_in_a_host_as_in_the_shell(tmp_path):
    settings = {
        "UV_DEFAULT_INDEX": "https://packages.example/simple",
        "SSL_CERT_FILE": "/etc/own.pem",
        "UV_PYTHON_SEARCH_PATH": "/own",
    }
    machine = make_machine(tmp_path, **settings, EDITOR="vi")
    make_program(tmp_path / "bin" / "uvx")
    python = make_python(tmp_path / THROW_AWAY[0], "pyvenv.cfg")
    assert dict(accord_command(machine, python).env) == settings


def test_a_password_of_an_index_is_not_written_into_an_entry(tmp_path):
    machine = make_machine(
        tmp_path, UV_INDEX="own=https://ann:hunter2@packages.example https://other.example"
    )
    make_program(tmp_path / "bin" / "uvx")
    # A Python of uv is found without PATH.
    base = Path("/home/ann/.local/share/uv/python/cpython-3.12.4-linux-x86_64-gnu")
    python = make_python(tmp_path / THROW_AWAY[0], "pyvenv.cfg", base_prefix=base)
    found = accord_command(machine, python)
    assert not found.env
    assert "UV_INDEX has a password" in found.remarks[1]
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("place", THROW_AWAY)
def test_a_throw_away_environment_without_uvx_is_refused_with_advice(tmp_path, place):
    python = make_python(tmp_path / place, "pyvenv.cfg")
    with pytest.raises(HostsError, match="will be deleted: install it to stay, with `uv tool"):
        accord_command(make_machine(tmp_path), python)


def test_an_environment_below_the_temporary_folder_is_kept_with_a_remark(tmp_path):
    machine = make_machine(tmp_path)
    make_program(tmp_path / "bin" / "uvx")
    python = make_python(tmp_path / "tmp" / "v", "pyvenv.cfg", temporary=(tmp_path / "tmp",))
    found = accord_command(machine, python)
    assert found.kind == "venv"
    assert "may be deleted" in found.remarks[0]


def test_a_checkout_below_the_temporary_folder_is_kept_with_a_remark(tmp_path):
    python = make_python(
        tmp_path / "tmp" / "v", "pyvenv.cfg", is_editable=True, temporary=(tmp_path / "tmp",)
    )
    found = accord_command(make_machine(tmp_path), python)
    assert found.kind == "checkout"
    assert "may be deleted" in found.remarks[1]


def test_the_plain_name_is_preferred_in_an_environment_alone(tmp_path):
    inside = make_python(tmp_path / "v", "pyvenv.cfg", name="python3.11")
    assert stable_python(inside.executable, inside.prefix) == inside.executable
    plain = make_program(tmp_path / "v/bin/python")
    assert stable_python(inside.executable, inside.prefix) == plain
    outside = make_python(tmp_path / "usr", name="python3.11")
    make_program(tmp_path / "usr/bin/python")
    assert stable_python(outside.executable, outside.prefix) == outside.executable


def test_the_window_variant_of_windows_is_not_launched(tmp_path):
    folder = tmp_path / "v" / "Scripts"
    make_program(folder / "python.exe")
    window = make_program(folder / "pythonw.exe")
    assert stable_python(window, tmp_path / "v") == folder / "python.exe"


def test_links_of_an_environment_are_not_followed(tmp_path):
    real = make_program(tmp_path / "python3.11.7" / "bin" / "python3.11")
    prefix = tmp_path / "v"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "pyvenv.cfg").touch()
    (prefix / "bin" / "python").symlink_to(real)
    assert stable_python(prefix / "bin/python", prefix) == prefix / "bin/python"


@pytest.mark.parametrize(
    ("inside", "stays"),
    [
        ("libexec/bin/python", "libexec/bin/python"),
        ("bin/python3.12", "bin/python3.12"),
        ("Frameworks/Python.framework/Versions/3.12/bin/python3.12", "bin/python3.12"),
    ],
)
def test_a_version_of_homebrew_is_replaced_by_the_folder_that_stays(tmp_path, inside, stays):
    started = make_program(tmp_path / "Cellar" / "python@3.12" / "3.12.4" / inside)
    lasting = make_program(tmp_path / "opt" / "python@3.12" / stays)
    assert stable_python(started, tmp_path) == lasting


DIST = "accord-0.2.dist-info"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, f"=={__version__}"),
        ("not JSON", f"=={__version__}"),
        ('{"url": "file:///code/accord", "dir_info": {}}', " @ file:///code/accord"),
        (
            '{"url": "https://x.example/a.git", "vcs_info": {"vcs": "git", "commit_id": "c1"}}',
            " @ git+https://x.example/a.git@c1",
        ),
    ],
)
def test_the_requirement_names_where_accord_is_from(tmp_path, monkeypatch, origin, expected):
    (tmp_path / DIST).mkdir()
    (tmp_path / DIST / "METADATA").write_text("Metadata-Version: 2.1\nName: accord\nVersion: 0.2\n")
    if origin is not None:
        (tmp_path / DIST / "direct_url.json").write_text(origin)
    monkeypatch.syspath_prepend(tmp_path)
    found = RunningPython.current(Machine.current()).requirement
    assert found.startswith("accord[") or found == f"accord{expected}"
    assert found.endswith(expected)


def test_this_installation_is_known():
    machine = Machine.current()
    python = RunningPython.current(machine)
    assert python.package == SOURCE / "accord" or "site-packages" in str(python.package)
    assert python_words(python.executable, python.prefix)[0].endswith(
        ("python", "python3", Path(sys.executable).name)
    )
    assert python.requirement.startswith("accord")


ASK = """\
import json
from accord_tools.hosts.definition import Machine
from accord_tools.hosts.launching.installation import RunningPython, accord_command
import msgspec
machine = Machine.current()
python = msgspec.structs.replace(RunningPython.current(machine), temporary=())
found = accord_command(machine, python)
print(json.dumps([found.kind, found.words, dict(found.env)]))
"""


def test_the_words_survive_when_the_environment_is_made_again(tmp_path):
    """A real one, which finds accord and its packages where this Python has them."""
    place = tmp_path / "my env"
    packages = [each for each in sys.path if each.endswith("site-packages")]

    def make():
        venv.create(place, with_pip=False, symlinks=True)
        (site,) = place.glob("lib/python3*/site-packages")
        for each in ("accord", "accord_tools"):
            shutil.copytree(SOURCE / each, site / each, ignore=lambda *_: ["__pycache__"])
        (site / "more.pth").write_text("\n".join(packages))

    make()
    versioned = place / "bin" / f"python3.{sys.version_info[1]}"
    started = versioned if versioned.exists() else place / "bin/python"
    done = subprocess.run(
        [started, "-c", ASK], capture_output=True, cwd="/", env={}, timeout=LONG, check=True
    )
    kind, words, env = json.loads(done.stdout)
    assert (kind, words[0], env) == ("venv", str(place / "bin/python"), {})
    shutil.rmtree(place)
    make()
    shown = subprocess.run(
        [*words, "--version"], capture_output=True, cwd="/", env=env, timeout=LONG, check=True
    )
    assert shown.stdout.startswith(b"accord ")
    assert os.path.islink(words[0])
