"""Machines for tests of commands: made of folders below the folder of the test."""

from pathlib import Path

from accord_tools.hosts.definition import Machine, System


def make_machine(folder: Path, system: System = "linux", **environ: str) -> Machine:
    """Return a machine with a home, a project and one folder in PATH, which is empty."""
    for name in ("home", "project", "bin"):
        (folder / name).mkdir(exist_ok=True)
    return Machine(
        system=system,
        environ={"PATH": str(folder / "bin"), **environ},
        home=folder / "home",
        project=folder / "project",
    )


def make_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    """Write a program, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path
