"""From a file of cases to the server that it names."""

import importlib.util
import sys
from pathlib import Path
from shlex import join, quote
from typing import Any, Final

from accord.check.contract.case_file import CaseError, CaseFile
from accord.check.contract.declared_tests import ContractRules
from accord.check.contract.tested_server import CallCommand, TestedServer
from accord.protocol.revisions import REVISIONS
from accord.server import Server

_TRANSPORTS: Final = ("stdio", "memory", "http", "sse")


def resolve_target(target: str, path: Path) -> str:
    """Return a target as it is found from any folder; a file is looked for beside the cases."""
    if target.startswith(("http://", "https://")):
        return target
    where, colon, name = target.rpartition(":")
    if not colon:
        where, name = target, ""
    file = path.parent / where
    return f"{file.resolve()}{colon}{name}" if file.is_file() else target


def rules_of(file: CaseFile) -> ContractRules | None:
    """Return what contract tests may do; None where none are wanted."""
    if not file.contract:
        return None
    return ContractRules(
        tools=frozenset(file.tools),
        allow_writes=file.allow_writes,
        examples=file.examples,
        seed=file.seed,
        calls=file.calls,
    )


def server_of(file: CaseFile, path: Path) -> TestedServer:
    """Return the way to the server that a file names; nothing is launched yet.

    Raises:
        CaseError: it names none, or one that cannot be reached so.
    """
    if (file.target is None) == (not file.command):
        raise CaseError(f"{path}: names no server; expected target = ... or command = [...]")
    transport = file.transport
    if transport is not None and transport not in _TRANSPORTS:
        raise CaseError(f"{path}: transport is {transport!r}, expected {', '.join(_TRANSPORTS)}")
    spoken = [row.id for row in REVISIONS.values() if row.handshake]
    if file.revision is not None and file.revision not in spoken:
        known = ", ".join(spoken)
        raise CaseError(f"{path}: revision is {file.revision!r}, expected one of {known}")
    options: dict[str, Any] = {} if file.revision is None else {"revision": file.revision}
    if file.command:
        options["cwd"] = path.parent
        way = CallCommand(after=f" -- {join(file.command)}")
        return TestedServer(file.command, options, patience=file.timeout, way=way)  # type: ignore[arg-type]  # checked above
    assert file.target is not None
    target = resolve_target(file.target, path)
    reached: Any = [sys.executable, "-P", "-m", "accord.cli.main", "run", target]
    if target.startswith(("http://", "https://")):
        reached = target
        options |= {} if transport is None else {"transport": transport}
    elif transport == "memory":
        reached = _loaded(target, path)
    way = CallCommand(before=f"{quote(target)} ")
    return TestedServer(reached, options, patience=file.timeout, way=way)  # type: ignore[arg-type]  # checked above


def _loaded(target: str, path: Path) -> Server[Any]:
    """Import the file of a server into this process."""
    where, colon, name = target.rpartition(":")
    file = Path(where if colon else target)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise CaseError(f"{path}: in memory a target is a Python file, not {target}")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    found = [each for each in vars(module).values() if isinstance(each, Server)]
    if colon:
        found = [each for each in [getattr(module, name, None)] if isinstance(each, Server)]
    if len(found) != 1:
        raise CaseError(f"{path}: {target} has {len(found)} servers, expected one")
    return found[0]
