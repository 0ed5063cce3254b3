"""Commands of other packages: found by entry points, named when they cannot be loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accord.cli.commands import LIBRARY, BrokenCommand, find_command, find_commands

WEATHER = '''
import argparse


def add_weather(commands):
    """Ask a server for the weather.

    The rest of the docstring is not shown.
    """
    parser = commands.add_parser("weather", help="ask a server for the weather")
    parser.add_argument("place")
    parser.set_defaults(run=show)


def show(options):
    print(f"{options.place}: sunny", *options.command)
    return 0


NUMBER = 1


def add_nothing(commands):
    import a_module_that_is_not_there
'''


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the import path with an installed package that brings commands."""
    (tmp_path / "weather_commands.py").write_text(WEATHER)
    info = tmp_path / "weather-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[accord.commands]\n"
        "weather = weather_commands:add_weather\n"
        "storm = no_such_module:add_storm\n"
        "number = weather_commands:NUMBER\n"
        "nothing = weather_commands:add_nothing\n"
        "run = weather_commands:add_weather\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run_accord(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "accord", *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_command_of_another_package_is_listed_and_runs(packages):
    listed = run_accord(packages, "--help")
    assert listed.returncode == 0
    assert "from other packages:" in listed.stdout
    assert "weather       Ask a server for the weather\n" in listed.stdout
    done = run_accord(packages, "weather", "Oslo", "--", "python", "server.py")
    assert (done.returncode, done.stdout) == (0, "Oslo: sunny python server.py\n")


def test_a_command_that_fails_to_load_is_named_and_the_others_work(packages):
    listed = run_accord(packages, "--help")
    shown = " ".join(listed.stdout.split())
    assert "storm cannot be loaded, see the package weather: ModuleNotFoundError" in shown
    assert "number cannot be loaded, see the package weather" in shown
    done = run_accord(packages, "storm")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "accord: the command storm of the package weather cannot be loaded: "
        "ModuleNotFoundError: No module named 'no_such_module'\n"
    )
    assert run_accord(packages, "list", "--help").returncode == 0


def test_a_command_that_fails_while_it_adds_its_parser_is_named(packages):
    done = run_accord(packages, "nothing")
    assert done.returncode == 2
    assert "a command of the package weather cannot be loaded" in done.stderr
    assert "a_module_that_is_not_there" in done.stderr


def test_a_command_of_the_library_cannot_be_replaced_by_another_package(packages):
    assert find_command("run") is LIBRARY["run"]
    assert find_commands()["run"] is LIBRARY["run"]


def test_a_mistyped_command_is_answered_with_the_one_of_another_package(packages):
    done = run_accord(packages, "wether")
    assert done.returncode == 2
    assert "there is no COMMAND wether; did you mean weather?" in done.stderr


def test_every_command_of_accord_loads_and_has_a_help():
    found = find_commands()
    assert [name for name, each in found.items() if isinstance(each, BrokenCommand)] == []
    own = {name for name, each in found.items() if each.package == "accord"}
    assert own >= {"run", "list", "call", "proxy", "auth", "store", "check", "fleet", "inspect"}
    assert all(each.help for each in found.values())


def test_a_command_of_the_library_starts_without_a_look_at_installed_packages():
    code = (
        "import sys; from accord.cli.main import main; sys.argv = ['accord', 'run', '--help'];"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
        "print('importlib.metadata' in sys.modules, 'accord_tools' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "False False\n", done.stderr
