"""The user's consent: which fleet files may launch their servers."""

import json
import os
from collections.abc import Mapping
from datetime import date, datetime, time
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.private_files import user_folder
from accord_tools.fleet.definition import Fleet, FleetError
from accord_tools.hosts.writing.destination import replace_file

_VARIABLE: Final = "ACCORD_FLEET_TRUST"
_FILE: Final = "trusted-fleets.json"


def launch_digest(fleet: Fleet) -> str:
    """Return a digest of everything that a fleet would launch or contact.

    Names, commands, arguments, variables, folders and URLs are in it, and so are the commands that
    print versions, and which tools may be called. What else is expected of a server is not, nor
    what the files contain that are launched or read.
    """
    launched = [
        {
            "name": server.name,
            "entry": server.entry,
            "folder": str((server.folder or fleet.folder).absolute()),
            "version": () if server.version is None else server.version.command,
            "calls": [server.allow_writes, sorted(server.tools), sorted(map(str, server.cases))],
        }
        for server in sorted(fleet.servers, key=lambda each: each.name)
    ]
    text = json.dumps(launched, sort_keys=True, default=_as_text)
    return sha256(text.encode()).hexdigest()


def _as_text(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return value.isoformat() if isinstance(value, date | datetime | time) else repr(value)


class TrustStore:
    """The fleet files that this user trusts, with the digest of what each may launch.

    Args:
        path: of the JSON file; None is the file of this user, or that of ACCORD_FLEET_TRUST.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or _default_path()

    def is_trusted(self, fleet: Fleet) -> bool:
        """Return whether the user trusts exactly what a fleet would launch."""
        return self._read().get(_key(fleet.path)) == launch_digest(fleet)

    def is_known(self, fleet: Fleet) -> bool:
        """Return whether the user trusted the file before, whatever it contained."""
        return _key(fleet.path) in self._read()

    def add(self, fleet: Fleet) -> None:
        """Trust what a fleet would launch now.

        Raises:
            FleetError: the store cannot be written.
        """
        self._write({**self._read(), _key(fleet.path): launch_digest(fleet)})

    def remove(self, path: Path) -> bool:
        """Withdraw the trust in a file; return whether there was any."""
        trusted = self._read()
        found = trusted.pop(_key(path), None)
        if found is not None:
            self._write(trusted)
        return found is not None

    def _read(self) -> dict[str, Any]:
        try:
            found = msgspec.json.decode(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise FleetError(f"{self.path} cannot be read: {error.strerror}") from None
        except (msgspec.DecodeError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise FleetError(f"{self.path} is not what accord wrote; remove it to trust anew")
        return found

    def _write(self, trusted: Mapping[str, str]) -> None:
        data = msgspec.json.format(msgspec.json.encode(dict(sorted(trusted.items()))))
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.path, data + b"\n")
        except OSError as error:
            raise FleetError(f"{self.path} cannot be written: {error.strerror}") from None


def _key(path: Path) -> str:
    return str(path.resolve())


def _default_path() -> Path:
    named = os.environ.get(_VARIABLE)
    if named:
        return Path(named).expanduser()
    return user_folder() / _FILE
