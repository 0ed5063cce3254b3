"""The scripts of the Action, run as a runner runs them, without the steps of other actions."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from accord.cli.main import main
from check.sessions import NEW

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
DEFAULTS = {name: row["default"] for name, row in ACTION["inputs"].items()}


@pytest.fixture
def runner(tmp_path):
    """Return a function that runs a step by name with inputs; it returns process and outputs."""
    (tmp_path / "accord" / "bin").mkdir(parents=True)
    python = shlex.quote(sys.executable)
    for name, command in {"accord": f"{python} -m accord.cli.main", "python": python}.items():
        path = tmp_path / "accord" / "bin" / name
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)
    (tmp_path / "server.py").write_text('from accord import Server\n\nserver = Server("small")\n')

    def run(name, inputs=(), outputs=(), step="check"):
        known = {f"inputs.{key}": value for key, value in {**DEFAULTS, **dict(inputs)}.items()}
        known |= {f"steps.{step}.outputs.{key}": value for key, value in dict(outputs).items()}
        env = {
            key: known.get(value.removeprefix("${{ ").removesuffix(" }}"), "")
            for key, value in STEPS[name]["env"].items()
        }
        (tmp_path / "outputs").write_text("")
        (tmp_path / "summary").write_text("")
        facts = {"RUNNER_TEMP": ".", "GITHUB_OUTPUT": "outputs", "GITHUB_STEP_SUMMARY": "summary"}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]],
            cwd=tmp_path,
            env={**os.environ, **facts, **env},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        outputs = dict(
            line.split("=", 1) for line in (tmp_path / "outputs").read_text().splitlines()
        )
        return done, outputs

    return run


def test_no_input_is_expanded_within_a_script():
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
    used = {value for step in STEPS.values() for value in step.get("env", {}).values()}
    assert {f"${{{{ inputs.{name} }}}}" for name in ("target", "command", "bearer")} <= used


def test_every_input_and_output_is_explained_and_every_input_used():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "checking.md").read_text(encoding="utf-8")
    for name, row in {**ACTION["inputs"], **ACTION["outputs"]}.items():
        assert row["description"]
        assert f"`{name}`" in page
    assert all(f"inputs.{name}" in text for name in ACTION["inputs"])


def test_the_extra_for_contract_tests_is_installed(runner, tmp_path):
    asked = tmp_path / "asked"
    venv = '#!/bin/sh\nfor last; do :; done\nmkdir -p "$last/bin"\ncp recorder "$last/bin/python"\n'
    (tmp_path / "recorder").write_text(f'#!/bin/sh\necho "$@" > {shlex.quote(str(asked))}\n')
    (tmp_path / "python").write_text(venv)
    for name in ("recorder", "python"):
        (tmp_path / name).chmod(0o755)
    done, _ = runner("Install accord", {"python": "./python"})
    assert done.returncode == 0, done.stderr
    extras = asked.read_text().strip().partition("[")[2].rstrip("]").split(",")
    assert {"standard", "test"} <= {*extras}


OPTIONS = "--only\nping\n"


@pytest.mark.parametrize(
    "inputs",
    [
        {"target": "server.py"},
        {"command": f"{sys.executable}\n-m\naccord.cli.main\nrun\nserver.py\n"},
    ],
    ids=["target", "command"],
)
def test_the_check_writes_every_report_and_the_score(runner, tmp_path, inputs):
    done, outputs = runner(
        "Check the server", {**inputs, "revisions": NEW, "options": OPTIONS, "folder": "a b"}
    )
    assert done.returncode == 0, done.stderr
    assert (outputs["exit-code"], outputs["is-written"], outputs["score"]) == ("0", "true", "100.0")
    assert int(outputs["exercised"]) <= int(outputs["applicable"])
    assert outputs["warnings"] == "0"
    assert sorted(path.name for path in (tmp_path / "a b").iterdir()) == [
        "badge.svg",
        "report.html",
        "report.json",
        "report.sarif",
        "report.xml",
        "summary.md",
    ]
    assert json.loads((tmp_path / "a b" / "report.json").read_text())["revisions"] == [NEW]
    assert (tmp_path / "summary").read_text().startswith("### accord: ")


def test_a_server_that_cannot_be_reached_leaves_no_report(runner, tmp_path):
    done, outputs = runner("Check the server", {"target": "missing.py"})
    assert done.returncode == 0
    assert outputs == {"exit-code": "2"}
    assert "missing.py" in done.stderr


def test_inputs_are_arguments_and_never_shell_code(runner, tmp_path):
    evil = "$(touch pwned); `touch pwned` \"; touch pwned; '"
    runner(
        "Check the server",
        {"target": evil, "revisions": evil, "options": evil, "bearer": evil, "command": evil},
    )
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("step", ["Check the server", "Check the fleet"])
def test_the_runner_takes_no_commands_from_texts_of_servers(runner, tmp_path, step):
    program = tmp_path / "accord" / "bin" / "accord"
    program.write_text("#!/bin/sh\necho ::error::fake\nexit 2\n")
    done, _ = runner(step, {"target": "x", "fleet": "x"})
    first, said, last = done.stdout.splitlines()
    assert said == "::error::fake"
    token = first.removeprefix("::stop-commands::")
    assert (len(token), last) == (32, f"::{token}::")


def test_the_token_is_never_an_argument(runner, tmp_path):
    seen = tmp_path / "seen"
    program = tmp_path / "accord" / "bin" / "accord"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" "token: $ACCORD_BEARER" > {seen}\nexit 2\n')
    runner("Check the server", {"target": "https://x.example/mcp", "bearer": "hush"})
    *arguments, token = seen.read_text().splitlines()
    assert "hush" not in " ".join(arguments)
    assert arguments[arguments.index("--bearer") + 1] == "-"
    assert token == "token: hush"  # which is where --bearer - looks for it


@pytest.mark.parametrize(
    ("fail_on", "code", "warnings", "ends"),
    [
        ("failure", "0", "3", 0),
        ("failure", "1", "0", 1),
        ("failure", "2", "", 2),
        ("warning", "0", "0", 0),
        ("warning", "0", "3", 1),
        ("warning", "2", "", 2),
        ("never", "1", "3", 0),
        ("sometimes", "0", "0", 2),
    ],
)
def test_the_job_fails_on_the_chosen_severity(runner, fail_on, code, warnings, ends):
    outputs = {"exit-code": code, "warnings": warnings}
    done, _ = runner("Decide", {"fail-on": fail_on}, outputs)
    assert done.returncode == ends


FLEET = f"""\
[defaults]
only = ["ping"]
revisions = ["{NEW}"]
contract = false
[mcpServers.small]
command = "{sys.executable}"
args = ["-m", "accord.cli.main", "run", "server.py"]
[mcpServers.gone]
command = "no-such-program"
"""


def test_a_fleet_writes_every_report_and_the_counts(runner, tmp_path):
    (tmp_path / "fleet.toml").write_text(FLEET)
    inputs = {"fleet": "fleet.toml", "folder": "a b", "fail-on": "failure regression"}
    done, outputs = runner("Check the fleet", {**inputs, "options": "--skip\nmeasure\n"})
    assert done.returncode == 0, done.stderr
    assert outputs == {
        "exit-code": "1",
        "is-written": "true",
        "total": "2",
        "as-expected": "1",
        "regressions": "",
    }
    written = {path.name for path in (tmp_path / "a b").iterdir()}
    assert {"report.html", "report.sarif", "summary.md", "site"} <= written
    assert "1 of 2 as expected" in (tmp_path / "summary").read_text()
    assert (tmp_path / "accord-fleet.sqlite").is_file()


def test_a_fleet_file_that_is_wrong_leaves_no_report(runner, tmp_path):
    (tmp_path / "fleet.toml").write_text("[mcpServers.small]\ncomand = 'x'\n")
    done, outputs = runner("Check the fleet", {"fleet": "fleet.toml"})
    assert outputs == {"exit-code": "2"}
    assert "did you mean command" in done.stderr


@pytest.mark.parametrize("code", ["0", "1", "2"])
def test_a_fleet_decides_by_itself_what_fails_the_job(runner, code):
    done, _ = runner("Decide", {"fail-on": "drift"}, {"exit-code": code}, step="fleet")
    assert done.returncode == int(code)


def test_hooks_run_commands_that_exist(capsys):
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hooks
    for hook in hooks:
        assert {"id", "name", "entry", "language"} <= set(hook)
        name, *words = shlex.split(hook["entry"])
        assert name == "accord"
        with pytest.raises(SystemExit) as ended:
            main([*words, "--help"])
        assert ended.value.code == 0
    capsys.readouterr()
