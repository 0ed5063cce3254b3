"""`accord exec` launches a command in its place."""

import json
import os
import signal
import subprocess
import sys

import pytest

from accord.cli.main import main

SHOW = (
    "import json, os, signal, sys; print(json.dumps({'env': dict(os.environ), 'args': sys.argv[1:],"
    "'cwd': os.getcwd(), 'pid': os.getpid(), 'input': sys.stdin.read(),"
    "'pipe': signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN}))"
)
is_posix = pytest.mark.skipif(os.name != "posix", reason="processes of POSIX")


def accord_exec(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "accord", "exec", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **more,
    )


@pytest.fixture
def env_file(tmp_path):
    path = tmp_path / "notes.env"
    path.write_text('TOKEN="sk-live-0123"\n')
    path.chmod(0o600)
    return path


def test_the_command_gets_the_variables_the_folder_its_words_and_the_input(tmp_path, env_file):
    folder = tmp_path / "a folder"
    folder.mkdir()
    words = [sys.executable, "-c", SHOW, "--cwd", "--", "a b", ""]
    done = accord_exec("--cwd", folder, f"--env-file={env_file}", "--", *words, input="sent")
    shown = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert shown["env"]["TOKEN"] == "sk-live-0123"
    assert shown["env"]["HOME"] == os.environ["HOME"]
    assert shown["args"] == ["--cwd", "--", "a b", ""]
    assert (shown["cwd"], shown["input"]) == (str(folder), "sent")


@is_posix
def test_the_command_takes_the_place_of_the_process_and_its_signals():
    process = subprocess.Popen(
        [sys.executable, "-m", "accord", "exec", "--", "sh", "-c", "echo $$; exec sleep 60"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert int(process.stdout.readline()) == process.pid
        process.terminate()
    assert process.returncode == -signal.SIGTERM


@is_posix
def test_a_closed_pipe_ends_the_command_as_without_accord():
    done = accord_exec("--", "sh", "-c", "kill -PIPE $$; echo ignored")
    assert (done.returncode, done.stdout) == (-signal.SIGPIPE, "")


@is_posix
def test_a_program_is_looked_for_in_the_path_of_the_file(tmp_path, env_file):
    program = tmp_path / "bin" / "greet-of-this-test"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello; exit 7\n")
    program.chmod(0o755)
    env_file.write_text(f'PATH="{program.parent}"\n')
    done = accord_exec("--env-file", env_file, "--", program.name)
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello\n", "")
    done = accord_exec("--cwd", tmp_path, "--", "./bin/greet-of-this-test")
    assert (done.returncode, done.stdout) == (7, "hello\n")


@is_posix
@pytest.mark.parametrize("is_quick", [True, False])
def test_a_program_that_cannot_be_launched_is_reported_as_by_a_shell(tmp_path, capsys, is_quick):
    (tmp_path / "plain").write_text("text")
    (tmp_path / "script").write_text("#!/missing/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    cases = [
        ("missing-program-of-this-test", 127, "is not found in PATH="),
        ("./missing", 127, f"the program ./missing is not found in {tmp_path}"),
        ("./plain", 126, "./plain cannot be launched: Permission denied"),
        ("./script", 126, "the interpreter of its first line does not exist"),
        (".", 126, "cannot be launched: "),
    ]
    before = os.getcwd(), signal.getsignal(signal.SIGPIPE)
    for program, code, said in cases if not is_quick else cases[:1]:
        words = ["--cwd", str(tmp_path), "--", program]
        if is_quick:
            done = accord_exec(*words)
            shown = (done.returncode, done.stdout, done.stderr)
        else:
            try:
                shown = (main(["exec", *words]), *capsys.readouterr())
            finally:
                os.chdir(before[0])
                for number in (signal.SIGPIPE, signal.SIGXFSZ):
                    signal.signal(number, before[1])
        assert shown[:2] == (code, "")
        assert shown[2].startswith("accord: ")
        assert said in shown[2]
        assert shown[2].count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cwd", "/missing/folder", "--", "true"], "the folder /missing/folder cannot be used"),
        (["--env-file", "/missing.env", "--", "true"], "/missing.env cannot be read"),
        (["--cwd", "/"], "exec needs a command after --"),
        (["--"], "exec needs a command after --"),
        (["true"], "write the command after --: accord exec -- true"),
        (["--cdw", "/", "--", "true"], "there is no option --cdw; did you mean --cwd?"),
    ],
)
def test_a_mistake_is_said_on_stderr_alone(words, said, capsys):
    try:
        code = main(["exec", *words])
    except SystemExit as end:
        code = end.code
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert shown.err.startswith("accord: ")
    assert said in shown.err


def test_a_file_that_others_may_read_is_refused_without_showing_it(env_file):
    env_file.chmod(0o644)
    done = accord_exec("--env-file", env_file, "--", sys.executable, "-c", "print(1)")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: other users can read {env_file} (mode 0644)")
    assert "sk-live" not in done.stderr


CHILD = (
    "import os, sys; from accord_tools.hosts.commands.exec import _run_child;"
    "sys.exit(_run_child(sys.argv[1:], dict(os.environ)))"
)


def test_where_a_process_cannot_be_replaced_a_child_gets_the_input_and_gives_its_code(tmp_path):
    def run(*words):
        return subprocess.run(
            [sys.executable, "-c", CHILD, *words],
            input="sent",
            capture_output=True,
            text=True,
            check=False,
        )

    done = run(sys.executable, "-c", "import sys; print(sys.stdin.read()); sys.exit(7)")
    assert (done.returncode, done.stdout, done.stderr) == (7, "sent\n", "")
    done = run("missing-program-of-this-test")
    assert (done.returncode, done.stdout) == (127, "")
    (tmp_path / "empty").touch(mode=0o755)
    done = run(str(tmp_path / "empty"))
    assert (done.returncode, done.stdout) == (126, "")
    assert "empty cannot be launched: Exec format error" in done.stderr


def test_help_comes_from_the_whole_command_line():
    done = accord_exec("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: accord exec [options] -- COMMAND ...")


def test_it_starts_without_what_takes_long(env_file):
    code = (
        "import sys; import accord.__main__ as command, os;"
        "os.execvpe = lambda *_: (print(*sys.modules), os._exit(sys.stdout.flush() or 0));"
        "sys.argv = ['accord', 'exec', '--env-file', sys.argv[1], '--', 'true']; command.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, env_file], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "accord_tools.hosts.writing.secret_files" in loaded
    slow = {
        "asyncio",
        "rich",
        "msgspec",
        "argparse",
        "subprocess",
        "accord.types",
        "accord_tools.check",
    }
    assert not slow & loaded
