"""The variables, the PATH and the folder of a server that a host launches."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import EntryShape, LaunchModel, Machine, PlaceholderForms
from accord_tools.hosts.launching.environment import host_environment
from support.checked_hosts import DESKTOP, TERMINAL

SHELL = {"HOME": "/home/me", "PATH": "/home/me/.local/bin:/usr/bin", "LANG": "C", "API_KEY": "k1"}


def machine(system="linux", **environ):
    given = SHELL | environ
    return Machine(system=system, environ=given, home=Path("/home/me"), project=Path("/code"))


def launched(host=DESKTOP, on=None, launch=None, forms=None, **entry):
    """The settings of an entry in a host with another model."""
    changes = {"launch": launch} if launch else {}
    if forms:
        changes["placeholders"] = forms
    given = ServerSpec(name="x", **({"command": ("npx",)} | entry))
    return host_environment(replace(host, **changes), on or machine(), given)


@pytest.mark.parametrize(
    ("system", "path"),
    [
        ("macos", "/usr/bin:/bin:/usr/sbin:/sbin"),
        ("linux", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ],
)
def test_a_desktop_has_neither_the_path_nor_the_variables_of_a_shell(system, path):
    found = launched(on=machine(system))
    assert found.path == found.env["PATH"] == path
    assert found.env == {"HOME": "/home/me", "LANG": "C", "PATH": path}
    assert path in found.notes[0]


def test_a_desktop_of_windows_has_its_users_path_without_an_active_environment():
    path = r"C:\work\.venv\Scripts;C:\Windows\system32"
    given = {"Path": path, "VIRTUAL_ENV": r"C:\work\.venv", "OTHER": "1"}
    on = Machine(system="windows", environ=given, home=Path("C:/me"), project=Path("C:/code"))
    found = launched(on=on, env={"PATH": "C:\\only"})
    assert found.env["Path"] == found.path == "C:\\only"
    assert launched(on=on).path == r"C:\Windows\system32"
    assert found.env["OTHER"] == "1"


def test_a_host_in_a_terminal_passes_on_everything():
    found = launched(TERMINAL)
    assert found.env == SHELL
    assert found.cwd == Path("/code")


def test_only_listed_variables_are_passed_on():
    model = LaunchModel(path="shell", inherits="listed", names=("HOME", "PATH"))
    assert set(launched(launch=model).env) == {"HOME", "PATH"}


def test_names_that_look_like_secrets_are_dropped_unless_the_entry_sets_them():
    model = LaunchModel(path="shell", drops=("*KEY*",))
    forms = PlaceholderForms(env="${NAME}")
    assert "API_KEY" not in launched(launch=model).env
    found = launched(launch=model, forms=forms, env={"API_KEY": "${env:API_KEY}"})
    assert found.env["API_KEY"] == "k1"


def test_a_variable_that_the_host_ignores_is_reported():
    model = LaunchModel(path="shell", ignores=("PATH",))
    found = launched(launch=model, env={"PATH": "/mine"})
    assert (found.path, found.ignored) == (SHELL["PATH"], ("PATH",))


def test_placeholders_are_filled_in_from_the_variables_of_the_host():
    forms = PlaceholderForms(env="${env:NAME}")
    found = launched(
        TERMINAL,
        forms=forms,
        command=("run", "${workspaceFolder}/a", "${env:API_KEY}"),
        env={"A": "x-${env:LANG}", "B": "${env:NONE:-d}"},
        url="https://h/${env:LANG}",
        headers={"H": "${env:NOWHERE}"},
    )
    assert found.command == ("run", "/code/a", "k1")
    assert (found.env["A"], found.env["B"]) == ("x-C", "d")
    assert found.url == "https://h/C"
    assert found.missing == ("NOWHERE",)
    assert "k1" not in repr(found)


def test_a_variable_of_the_shell_is_used_and_reported_for_a_desktop():
    forms = PlaceholderForms(env="${env:NAME}")
    found = launched(forms=forms, env={"API_KEY": "${env:API_KEY}"})
    assert found.env["API_KEY"] == "k1"
    assert found.of_shell == ("API_KEY",)


def test_a_host_without_placeholders_passes_the_text_on():
    assert launched(env={"A": "${env:LANG}"}).env["A"] == "${env:LANG}"


def test_a_host_that_takes_names_passes_on_what_it_has():
    shape = EntryShape(members={"command": "program", "args": "args", "env_vars": "env_names"})
    host = replace(TERMINAL, stdio=shape)
    found = launched(host, env={"API_KEY": "${env:API_KEY}", "NONE": "${env:NONE}"})
    assert found.env == SHELL
    assert found.missing == ("NONE",)


def test_an_input_is_asked_for_unless_a_variable_gives_it():
    forms = PlaceholderForms(input="${input:NAME}")
    found = launched(forms=forms, env={"A": "${input:api-key}"})
    assert found.asked == ("api-key",)
    given = machine(ACCORD_INPUT_API_KEY="v")
    found = launched(on=given, forms=forms, env={"A": "${input:api-key}"})
    assert (found.asked, found.env["A"]) == ((), "v")
    assert found.notes[0] == "Desk asks its user for api-key"


def test_the_folder_is_that_of_the_entry_or_of_the_host():
    assert launched().cwd == Path("/home/me")
    assert launched(launch=LaunchModel(cwd="root")).cwd == Path("/")
    assert launched(cwd="/data").cwd == Path("/data")
    assert launched(TERMINAL, cwd="sub").cwd == Path("/code/sub")
