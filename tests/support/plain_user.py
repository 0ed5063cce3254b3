"""A folder of a user who has no special rights, also when the tests run as root."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def plain_user() -> Iterator[Path]:
    """Yield an empty folder of a user who has no special rights.

    Modules have to be imported before: that user may not be able to read them.
    """
    with tempfile.TemporaryDirectory(prefix="accord-test-") as name:
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(name, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            if is_root:
                os.seteuid(0)
            for each in Path(name).iterdir():
                each.chmod(0o700)
