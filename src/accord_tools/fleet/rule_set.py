"""Sets of rules: scores are comparable only if the same rules made them.

A set is a list of requirement ids with a version. Requirements that a newer accord adds are
reported, but neither move the score nor fail a server of a fleet that names an older set.
"""

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from accord.protocol.catalogue import catalogue
from accord.types import REVISION_IDS
from accord_tools.check.verdicts import chosen_requirements
from accord_tools.contract.data_files import read_data_file
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.results import RuleSetStamp

LATEST: Final = "latest"
_ID: Final = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+")


class RuleSet(msgspec.Struct, frozen=True):
    """The requirements that count, and the name of the set."""

    version: str
    ids: frozenset[str]

    @property
    def stamp(self) -> RuleSetStamp:
        """Version and digest, to store with a run."""
        text = "\n".join(sorted(self.ids))
        return RuleSetStamp(version=self.version, digest=sha256(text.encode()).hexdigest()[:16])


def find_rule_set(named: str, folder: Path | None = None) -> RuleSet:
    """Return the set of a version, of a file of ids, or the latest one: all that servers obey.

    Args:
        named: "latest", a version such as "2026-11", or the path of a file with one id per line.
        folder: what the path is relative to.

    Raises:
        FleetError: there is no such version or file, or the file has an unknown id.
    """
    if named == LATEST:
        return _latest()
    known = _versions()
    if named in known:
        return RuleSet(named, known[named])
    path = (folder or Path()) / named
    if not path.is_file():
        raise FleetError(
            f"rules = {named!r} is not a set of rules; known: {', '.join([LATEST, *known])}, "
            "or a file with one requirement id per line"
        )
    return RuleSet(path.name, _read_ids(path))


@cache
def _latest() -> RuleSet:
    """Return every requirement of servers, named after the newest version that equals it."""
    ids = frozenset(
        row.id
        for revision in REVISION_IDS
        for row in chosen_requirements("server", revision, only=())
    )
    same = [version for version, listed in _versions().items() if listed == ids]
    return RuleSet(same[-1] if same else LATEST, ids)


@cache
def _versions() -> Mapping[str, frozenset[str]]:
    folder = files("accord_tools.fleet").joinpath("rules")
    found = {
        each.name.removesuffix(".txt"): frozenset(each.read_text("utf-8").split())
        for each in folder.iterdir()
        if each.name.endswith(".txt")
    }
    return dict(sorted(found.items()))


def _read_ids(path: Path) -> frozenset[str]:
    known = catalogue()
    ids = set()
    try:
        lines = read_data_file(path).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise FleetError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FleetError(f"{path} is not UTF-8 text") from None
    for number, line in enumerate(lines, 1):
        id = line.partition("#")[0].strip()
        if id and id not in known:
            # Only an id is quoted: the path may be that of any file, and reports are published.
            said = f"there is no requirement {id!r}" if _ID.fullmatch(id) else "is not an id"
            raise FleetError(f"{path}:{number}: {said}; accord requirements lists them")
        ids |= {id} if id else set()
    return frozenset(ids)
