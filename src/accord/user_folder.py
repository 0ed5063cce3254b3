"""The folder of this user for what accord keeps: tokens, trust, keys."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def user_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder in which accord keeps files of this user; it may not exist yet.

    Args:
        environ: the variables that may name it; those of this process by default.
    """
    environ = os.environ if environ is None else environ
    if sys.platform == "win32":
        base = environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Application Support")
    else:
        base = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "accord"
