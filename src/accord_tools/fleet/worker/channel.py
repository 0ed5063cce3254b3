"""The two pipes between a worker and its parent, out of reach of everything that a server does.

Messages leave through one place, where secrets are masked. When the parent closes its end, or is
gone, the worker ends all that it launched, then itself.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    TextIO,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from accord.secrets.filter import SecretFilter
from accord.types import JsonObject
from accord_tools.fleet.results import StageName
from accord_tools.fleet.running.processes import end_processes, find_descendants
from accord_tools.fleet.worker.job import (
    JOB_DECODER,
    WorkerJob,
    WorkerMessage,
    WorkerProgress,
    WorkerReport,
)

# -- masks: the one place where secrets are removed
# What the types call a fixed word, and ids and clauses of the catalogue, stay as they are: a
# password that begins with "pass" must not turn a verdict into something else.


T = TypeVar("T", bound=msgspec.Struct)

HideText: TypeAlias = Callable[..., str]
"""`SecretFilter.hide`: takes a text, and whether it may be cut at its ends."""

# Members with words of our own.
_OWN: Final = frozenset(
    {
        *("also", "anchor", "at", "beside", "clause", "id", "judged_by", "kind", "level", "mend"),
        *("party", "requirement", "revision", "revisions", "transport", "version"),
    }
)
# Members with whole texts of a server. Others may be cut: a secret may begin or end there.
_WHOLE: Final = frozenset(
    {
        *("after", "before", "called", "name", "names", "not_called", "server_name"),
        *("server_version", "subject", "catalog", "tool", "what"),
    }
)


def mask_message(message: T, hide: HideText) -> T:
    """Return a message with every text masked that is not a word of our own."""
    masked: T = _mask(message, Any, hide)
    return masked


def _mask(value: Any, kind: Any, hide: HideText) -> Any:
    """Return a value with its texts masked; what its type calls a fixed word stays."""
    inner = _inner_kinds(kind)
    if inner is None:
        return value
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {
            _mask(key, inner[0], hide): _mask(each, inner[-1], hide) for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        kind = list if isinstance(value, list) else tuple
        return kind(_mask(each, inner[0], hide) for each in value)
    return _mask_struct(value, hide) if isinstance(value, msgspec.Struct) else value


def _mask_struct(value: Any, hide: HideText) -> Any:
    changed = {}
    for name, kind in _members(value.__class__).items():
        before = getattr(value, name)
        after = _mask(before, kind, partial(hide, may_be_cut=False) if name in _WHOLE else hide)
        if after != before:
            changed[name] = after
    if not changed:
        return value
    if "mark" in value.__struct_fields__:
        # It counts characters of a text that is shorter or longer now.
        changed["mark"] = None
    return msgspec.structs.replace(value, **changed)


@cache
def _members(kind: Any) -> dict[str, Any]:
    """Return the members of a kind of object that may have texts of others, with their types."""
    return {name: each for name, each in get_type_hints(kind).items() if name not in _OWN}


@cache
def _inner_kinds(kind: Any) -> tuple[Any, ...] | None:
    """Return the types of what a container has in it; None if a type has no text of others."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal or kind in (int, float, bool, NoneType, bytes):
        return None
    if inner and all(each is ... or _inner_kinds(each) is None for each in inner):
        return None
    return (Any,) if not inner or origin in (Union, UnionType) else inner


# -- the pipes

# Seconds between two messages about the progress of a stage.
_PROGRESS_PAUSE: Final = 0.1
# Seconds that servers may take to end when the parent is gone.
_GRACE: Final = 1.0
_CHUNK: Final = 1 << 20
ENDED_BY_PARENT: Final = 3


class ParentChannel:
    """The way to the parent; takes standard input and output away from everything else."""

    def __init__(self) -> None:
        self._input = _take_away(0, os.O_RDONLY)
        self._output = _take_away(1, os.O_WRONLY)
        self._secrets: tuple[str, ...] = ()
        self._filter = SecretFilter(())
        self._lock = threading.Lock()
        self._sent: tuple[StageName | None, float] = (None, 0.0)
        self._is_ending = False
        self._ending_thread = 0

    def read_job(self) -> WorkerJob:
        """Read the job, a line of JSON; from now on its secrets are masked."""
        found = bytearray()
        while b"\n" not in found:
            chunk = os.read(self._input, _CHUNK)
            if not chunk:
                break
            found += chunk
        job = JOB_DECODER.decode(found)
        self.add_secrets(job.server.secrets)
        return job

    def add_secrets(self, secrets: "tuple[str, ...]") -> None:
        """Mask further texts from now on."""
        self._secrets = (*self._secrets, *secrets)
        self._filter = SecretFilter(self._secrets)

    def hide(self, text: str, *, may_be_cut: bool = True) -> str:
        """Return a text without secrets."""
        if not may_be_cut:  # what a server offers stays as it is, but for credentials
            return self._filter.hide(text, may_be_cut=False)
        return self._filter.hide_any(text)

    # -- sending

    def mask_catalog(self, catalog: JsonObject) -> JsonObject:
        """Return a catalog as the parent gets it, without secrets."""
        masked = mask_message(WorkerReport(catalog=catalog), self.hide).catalog
        assert masked is not None
        return masked

    def send(self, message: WorkerMessage) -> None:
        """Send a message, with every text masked; nothing is sent once the worker ends."""
        if self._is_ending:
            return
        masked = mask_message(message, self.hide)
        try:
            line = msgspec.json.encode(masked)
        except UnicodeEncodeError:
            # Half of a character, as some servers send when they cut a text.
            line = msgspec.json.encode(mask_message(masked, _replace_halves))
        with self._lock:
            view = memoryview(line + b"\n")
            while view:
                view = view[os.write(self._output, view) :]

    def report_progress(self, stage: StageName, share: float = 0.0, now: str = "") -> None:
        """Send how far a stage is, but not too often."""
        moment = time.monotonic()
        before, sent = self._sent
        if stage == before and moment - sent < _PROGRESS_PAUSE:
            return
        self._sent = stage, moment
        self.send(WorkerProgress(stage=stage, share=round(share, 3), now=now))

    def finish(self, report: WorkerReport) -> None:
        """Send the last part of the report, and end without further ado."""
        self.send(msgspec.structs.replace(report, is_complete=True))
        self.end(0)

    # -- ending

    def watch_parent(self) -> None:
        """End everything as soon as the parent closes its end of the pipe, or is gone."""
        sys.addaudithook(self._refuse_launch)
        threading.Thread(target=self._wait_for_end, name="parent", daemon=True).start()

    def _wait_for_end(self) -> None:
        while os.read(self._input, _CHUNK):
            pass
        self.end(ENDED_BY_PARENT)

    def end(self, code: int) -> None:
        """End all descendants, then this process."""
        self._ending_thread = threading.get_ident()
        self._is_ending = True
        try:
            end_processes(find_descendants, grace=_GRACE)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _refuse_launch(self, event: str, _details: tuple[Any, ...]) -> None:
        # The thread that ends everything may have to ask the system what runs.
        is_other = self._is_ending and threading.get_ident() != self._ending_thread
        if is_other and event == "subprocess.Popen":
            raise OSError("the worker ends")


def _take_away(descriptor: int, flags: int) -> int:
    """Return a copy of a descriptor that no child inherits; the old number leads nowhere."""
    kept = os.dup(descriptor)
    nowhere = os.open(os.devnull, flags)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return kept


def _replace_halves(text: str, *, may_be_cut: bool = True) -> str:
    return text.encode("utf-8", "replace").decode()


class MaskedStream:
    """Standard error with secrets masked: tracebacks and logs quote anything."""

    def __init__(self, stream: TextIO, hide: Callable[[str], str]) -> None:
        self._stream = stream
        self._hide = hide
        self._rest = ""

    def write(self, text: str) -> int:
        """Write whole lines, masked."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._stream.write(f"{self._hide(line)}\n")
        return len(text)

    def flush(self) -> None:
        """Pass on whole lines; a secret may go on in the rest."""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
