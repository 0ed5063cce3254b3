"""`accord exec`: launch a command in a folder, with variables of a file.

Hosts wait for it at every start of a server: `python -m accord exec` comes here without the rest
of the command line, and nothing slow is imported.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from accord.cli.options import Commands

_HELP = """\
usage: accord exec [options] -- COMMAND ...

Launch a command in a folder, with variables that are read from a file. It is for hosts that can do
neither: write `accord exec` before the command in the host's configuration. The command takes the
place of this process, so stdin, stdout, signals and the exit code are its own.

The file has lines KEY="value", and only its owner may read it (chmod 600). A program is looked for
in the PATH that the file sets, or else in that of this process; relative paths start from the
folder.

Exit code: that of the command; 127 if it is not found, 126 if it cannot be launched, 2 if the
folder or the file cannot be used.

examples:
  accord exec --cwd /srv/notes -- python server.py
  accord exec --env-file ~/.config/accord/secrets/notes.env -- npx -y some-server
"""
_OPTIONS = """\
rest* WORD
--cwd DIR        the folder that the command runs in
--env-file FILE  a file with variables, in addition to those of this process
"""


def register(commands: "Commands") -> None:
    """Add the command to the command line."""
    from accord.cli.options import add_command

    add_command(commands, "exec", run, _HELP, _OPTIONS)


def run(options: "argparse.Namespace") -> int:
    """Launch the command in the place of this process."""
    from accord.cli.options import UsageError

    if options.rest:
        raise UsageError(f"write the command after --: accord exec -- {' '.join(options.rest)}")
    if not options.command:
        raise UsageError("exec needs a command after --")
    return launch(options.command, folder=options.cwd, env_file=options.env_file)


def run_at_once(words: Sequence[str]) -> int | None:
    """Launch the command of a simple command line; None if the words need the whole parser."""
    known = {"--cwd": "", "--env-file": ""}
    words = list(words)
    while words and words[0] != "--":
        name, equals, value = words.pop(0).partition("=")
        if name not in known or (not equals and not words):
            return None
        known[name] = value if equals else words.pop(0)
        if not known[name] or known[name] == "--":
            return None
    if len(words) < 2:
        return None
    from accord.errors import AccordError

    try:
        return launch(words[1:], folder=known["--cwd"], env_file=known["--env-file"])
    except AccordError as error:
        _complain(str(error))
        return 2


def launch(command: Sequence[str], *, folder: str | None, env_file: str | None) -> int:
    """Launch a command in the place of this process; return an exit code if that fails.

    Raises:
        HostsError: the file with variables cannot be used.
    """
    environ: Any = os.environ.copy()
    if env_file:
        from accord_tools.hosts.writing.secret_files import read_env_file

        environ.update(read_env_file(os.path.expanduser(env_file)))
    if folder:
        try:
            os.chdir(os.path.expanduser(folder))
        except OSError as error:
            _complain(f"the folder {folder} cannot be used: {error.strerror}")
            return 2
        environ["PWD"] = os.getcwd()
    if sys.platform == "win32":
        return _run_child(command, environ)
    return _replace_process(command, environ)


def _replace_process(command: Sequence[str], environ: Any) -> int:
    # Python ignores these, and the command would inherit that.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        # It looks for the program in the PATH of these variables.
        os.execvpe(command[0], list(command), environ)  # noqa: S606
    except (FileNotFoundError, NotADirectoryError):
        return _not_found(command[0], environ)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        _complain(f"{command[0]} cannot be launched: {reason}")
        return 126


def _not_found(program: str, environ: Any) -> int:
    if os.path.isfile(program) and os.path.dirname(program):
        _complain(f"{program} cannot be launched: the interpreter of its first line does not exist")
        return 126
    place = f"in {os.getcwd()}" if os.path.dirname(program) else f"in PATH={environ.get('PATH')}"
    _complain(f"the program {program} is not found {place}")
    return 127


def _run_child(command: Sequence[str], environ: Any) -> int:
    """Run a command to its end on Windows, where no process takes the place of another."""
    import shutil
    import subprocess

    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        return _not_found(command[0], environ)
    # Ctrl-C reaches the command as well, which decides what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = subprocess.Popen(  # noqa: S603
            [program, *command[1:]], env=environ, close_fds=False
        )
    except (OSError, ValueError) as error:
        _complain(f"{program} cannot be launched: {getattr(error, 'strerror', None) or error}")
        return 126
    return child.wait()


def _complain(text: str) -> None:
    from accord.cli.terminal import complain

    complain(text)
