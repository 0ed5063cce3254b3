import pytest

from accord.cli.main import main


@pytest.fixture
def accord(tmp_path, monkeypatch, capsys):
    """Run `accord fleet` in a folder and home of its own; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_FLEET_TRUST", str(tmp_path / "trust.json"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def run(*words):
        try:
            code = main(["fleet", *words])
        except SystemExit as end:
            code = end.code
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run
