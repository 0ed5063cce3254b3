"""Fetches the examples of the foreign libraries, which their source archives contain.

    python originals.py FOLDER

The archives are those of the versions that are installed. `make .venv-interop/ready` calls this;
the repository has no copy of them.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

LIBRARIES: Final = ("fastmcp", "mcp")


def fetch(folder: Path) -> None:
    """Unpack the examples of each library into `FOLDER/LIBRARY/examples`."""
    wanted = [f"{name}=={version(name)}" for name in LIBRARIES]
    with tempfile.TemporaryDirectory() as archives:
        options = ["-q", "--no-deps", "--no-binary", ",".join(LIBRARIES), "-d", archives]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "download", *options, *wanted], check=True)
        for name in LIBRARIES:
            shutil.rmtree(folder / name, ignore_errors=True)
            (archive,) = Path(archives).glob(f"{name}-*.tar.gz")
            _unpack(archive, folder / name)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        for member in opened:
            path = Path(*Path(member.name).parts[1:])
            if member.isfile() and path.parts[:1] == ("examples",) and path.suffix == ".py":
                member.name = str(path)
                opened.extract(member, folder, filter="data")


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
