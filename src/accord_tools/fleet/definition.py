"""The fleet as its file defines it: servers, and what is expected of each."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from accord.errors import AccordError
from accord.types import RevisionId

DEFAULT_FILE: Final = "accord-fleet.toml"
DEFAULT_HISTORY: Final = "accord-fleet.sqlite"
# Seconds for everything about one server, and for each answer. A server that takes a second to
# start, which a check does some fifty times, needs two minutes beside three others on two cores.
DEFAULT_TIME: Final = 300.0
DEFAULT_PATIENCE: Final = 5.0
# Hours for which the result of a launched server may be reused; a remote one changes unseen.
DEFAULT_MAX_AGE: Final = 24.0

Directory: TypeAlias = Literal["claude", "openai"]
"""A directory that lists servers, and has rules for them."""


class FleetError(AccordError):
    """A fleet cannot be read or run; the message names the file, the line and the key."""


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits within which a server is as expected; None sets no limit.

    Attributes:
        failures: the most requirements that may fail; accepted ones do not count.
        warnings: the most warnings.
        score: the least score, from 0 to 100.
        exercised: the least number of requirements put to the test.
        coverage: the least percentage of the applicable requirements put to the test.
        tests: the most tests that may fail.
        start: the most seconds until the first answer.
        tokens: the most tokens that the list of tools may cost.
    """

    failures: int | None = 0
    warnings: int | None = None
    score: float | None = None
    exercised: int | None = None
    coverage: float | None = None
    tests: int | None = 0
    start: float | None = None
    tokens: int | None = None


class AcceptedBreach(msgspec.Struct, frozen=True, kw_only=True):
    """A breach that does not count for some time.

    Attributes:
        id: of a requirement or a finding; `tools.*` stands for all that begin with `tools.`.
        reason: why it is accepted.
        until: the last day on which it is.
        subject: only the finding about this entry, such as "tool add"; None accepts all.
    """

    id: str
    reason: str
    until: date
    subject: str | None = None

    def covers(self, id: str, subject: str | None = None) -> bool:
        """Return whether this is about a requirement or finding, whatever the day."""
        if self.subject is not None and subject != self.subject:
            return False
        return id.startswith(self.id[:-1]) if self.id.endswith("*") else id == self.id


class VersionSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the version of a server is found; one of the three is given.

    Attributes:
        package: "pypi:NAME" or "npm:NAME", as installed where the server runs.
        command: prints the version.
        file: contains it: pyproject.toml, package.json, server.json, or a text file.
    """

    package: str | None = None
    command: tuple[str, ...] = ()
    file: Path | None = None


class WorkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is done about one server, and within which limits.

    Attributes:
        time: seconds for everything about it.
        revisions: the revisions to check; empty checks all that it speaks.
        only: ids of requirements, or their beginnings; empty checks all.
        tools: may be called whatever they do, and no others.
        allow_writes: whether tools that change something may be called.
        calls: the most calls of each tool; None is the default of a check.
        patience: seconds to wait for each answer.
        one_at_a_time: whether it cannot run twice at once.
        contract: whether contract tests are made from its schemas.
        cases: files with test cases.
        lock: the file with what it should offer.
    """

    time: float = DEFAULT_TIME
    revisions: tuple[RevisionId, ...] = ()
    only: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    allow_writes: bool = False
    calls: int | None = None
    patience: float = DEFAULT_PATIENCE
    one_at_a_time: bool = False
    contract: bool = True
    cases: tuple[Path, ...] = ()
    lock: Path | None = None


class FleetServer(WorkPlan, frozen=True, kw_only=True):
    """One server of a fleet: how to reach it, what is done about it, and what is expected.

    Attributes:
        name: its identity through time.
        entry: its members in `mcpServers`, with placeholders not yet filled in.
        line: of the entry in the file.
        owner: the people who look after it.
        tags: words to choose servers by.
        expect: limits.
        accept: breaches that do not count.
        readiness: directories whose rules it should fulfil.
        needs: variables without which it is skipped.
        version: where its version is found, beside what it says itself.
        max_age: hours for which its result may be reused; None is the default.
        folder: what relative paths of its entry are relative to; None is that of the fleet.
    """

    name: str
    entry: Mapping[str, Any]
    line: int | None = None
    owner: str = ""
    tags: tuple[str, ...] = ()
    expect: ServerLimits = ServerLimits()
    accept: tuple[AcceptedBreach, ...] = ()
    readiness: tuple[Directory, ...] = ()
    needs: tuple[str, ...] = ()
    version: VersionSource | None = None
    max_age: float | None = None
    folder: Path | None = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet file, read and checked.

    Attributes:
        path: the file.
        folder: what relative paths are relative to, and where servers run.
        servers: in the order of the file, without disabled ones.
        name: shown on top of reports.
        rules: the set of rules that scores are made by: a version, a file of ids, or "latest".
        notes: remarks on the file, such as entries that are disabled.
    """

    path: Path
    folder: Path
    servers: tuple[FleetServer, ...]
    name: str = ""
    rules: str = "latest"
    notes: tuple[str, ...] = ()
