"""Before a server is checked: how to reach it, whether an earlier result may do, what to ask."""

import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Any, Final

import msgspec

from accord.client.server_spec import ServerSpec
from accord.secrets.filter import SecretFilter
from accord_tools.fleet.caching import SECRET_VARIABLE, CacheKey, make_key, read_version
from accord_tools.fleet.definition import (
    DEFAULT_MAX_AGE,
    Directory,
    Fleet,
    FleetError,
    FleetServer,
    WorkPlan,
)
from accord_tools.fleet.file.entries import resolve_server, withheld_variables
from accord_tools.fleet.history.history import History, ReusableResult
from accord_tools.fleet.results import FailOn, RuleSetStamp, ServerResult, StageName, StageResult
from accord_tools.fleet.worker.job import WorkerJob

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does beyond what the fleet file says.

    Attributes:
        jobs: how many workers at once.
        fail_fast: whether the first server that is not as expected ends the run.
        is_reusing: whether earlier results may be reused.
        refresh: names of servers whose results are made anew.
        skipped: stages that are left out.
        readiness: directories whose rules every server should fulfil.
        against: the run to compare with: "last", a run of the history, a branch, a file.
        fail_on: what fails the run.
        require_all: whether every server has to be checked.
        is_locking: whether lock files are about to be written, so that nothing is compared.
    """

    jobs: int
    fail_fast: bool = False
    is_reusing: bool = True
    refresh: frozenset[str] = frozenset()
    skipped: frozenset[StageName] = frozenset()
    readiness: tuple[Directory, ...] = ()
    against: str = "last"
    fail_on: tuple[FailOn, ...] = ("failure",)
    require_all: bool = False
    is_locking: bool = False


class PreparedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is ready to be checked, or why it cannot be.

    Attributes:
        server: what is expected of it.
        resolved: how to reach it.
        result: the result of a server that cannot be checked; None if it can.
        job: for a worker; None if it cannot be checked.
        key: of the result.
        earlier: a result that holds if the catalog is still the same.
        version: as found where the fleet file says.
    """

    server: FleetServer
    resolved: ServerSpec
    result: ServerResult | None = None
    job: WorkerJob | None = None
    key: CacheKey = CacheKey()
    earlier: ReusableResult | None = None
    version: str = ""


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """What all servers of a run have in common.

    Attributes:
        fleet: the file.
        rules: the set of rules.
        history: earlier runs.
        settings: what the run does.
        now: the time of the run.
    """

    fleet: Fleet
    rules: RuleSetStamp
    history: History
    settings: FleetSettings
    now: datetime

    def prepare(self, server: FleetServer) -> PreparedServer:
        """Return a server with its job, or with its result if it cannot be checked."""
        resolved = resolve_server(server, self.fleet)
        if not resolved.missing and not resolved.not_found:
            return self._plan(server, resolved)
        text = f"needs {', '.join([*_describe_missing(resolved.missing), *resolved.not_found])}"
        result = ServerResult(
            name=server.name,
            line=server.line,
            # A missing variable is the business of this machine, a missing program a fault.
            state="skipped" if resolved.missing else "unreachable",
            reasons=(text,),
            target=resolved.shown,
            stages=(StageResult(name="resolve", state="failed", text=text),),
        )
        return PreparedServer(server=server, resolved=resolved, result=result)

    def _plan(self, server: FleetServer, resolved: ServerSpec) -> PreparedServer:
        version, why_not = "", ""
        try:
            version = read_version(server, resolved, self.fleet.folder)
            # Reports show it.
            version = SecretFilter(resolved.secrets).hide(version, may_be_cut=False)
        except FleetError as error:
            why_not = str(error)
        key = CacheKey(why_not=why_not)
        if not why_not and not self.settings.skipped:
            key = make_key(server, resolved, self.rules, version=version)
        elif self.settings.skipped:
            key = CacheKey(why_not="some stages were left out")
        earlier = self._find_earlier(server, resolved, key)
        path = os.path.relpath(self.fleet.path)
        plan: dict[str, Any] = {name: getattr(server, name) for name in WorkPlan.__struct_fields__}
        if "test" in self.settings.skipped:
            plan |= {"contract": False, "cases": ()}
        job = WorkerJob(
            **plan | {"lock": self._find_lock(server)},
            server=resolved,
            checks="check" not in self.settings.skipped,
            measure="measure" not in self.settings.skipped,
            reuse_if=_reuse_digest(earlier),
            repeat=f"accord fleet run {quote(path)} --server {quote(server.name)} --no-history",
            artifact=path,
            reuse_version="" if earlier is None else earlier.result.server_version,
            withheld=(SECRET_VARIABLE, *withheld_variables(server, self.fleet.servers)),
        )
        return PreparedServer(
            server=server, resolved=resolved, job=job, key=key, earlier=earlier, version=version
        )

    def _find_lock(self, server: FleetServer) -> Path | None:
        if self.settings.is_locking or server.lock is None or not server.lock.is_file():
            return None
        return server.lock

    def _find_earlier(
        self, server: FleetServer, resolved: ServerSpec, key: CacheKey
    ) -> ReusableResult | None:
        if not self.settings.is_reusing or not key.key or server.name in self.settings.refresh:
            return None
        # A remote server changes without notice.
        default = 0.0 if resolved.url else DEFAULT_MAX_AGE
        hours = default if server.max_age is None else server.max_age
        if hours <= 0:
            return None
        not_before = self.now - timedelta(hours=hours)
        return self.history.find_reusable(server.name, key.key, not_before)


def _describe_missing(missing: Sequence[str]) -> Iterator[str]:
    """Yield what is missing in words; most of it are names of variables."""
    names = [each for each in missing if _VARIABLE.fullmatch(each)]
    if names:
        is_one = len(names) == 1
        yield f"the variable{'' if is_one else 's'} {', '.join(names)}"
        yield f"which {'is' if is_one else 'are'} not set"
    yield from (each for each in missing if each not in names)


def _reuse_digest(earlier: ReusableResult | None) -> str:
    if earlier is None or earlier.result.catalog is None or not earlier.documents.report:
        return ""
    return earlier.result.catalog.digest
