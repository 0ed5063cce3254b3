"""A home folder, and commands as a user types them."""

import os

import pytest

from accord.cli.main import main
from hosts.host_texts import SERVER


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with a project in it, which is the current folder."""
    folder = tmp_path / "home"
    project = folder / "desk"
    project.mkdir(parents=True)
    (project / "desk.py").write_text(SERVER)
    for name in list(os.environ):
        if name.startswith(("XDG_", "CODEX_", "CLAUDE", "COPILOT", "CLINE", "GOOSE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.chdir(project)
    return folder


@pytest.fixture
def accord(capsys):
    """Run a command; returns its exit code and what it printed."""

    def run(*words):
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
