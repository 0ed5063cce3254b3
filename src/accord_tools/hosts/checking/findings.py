"""What a check of a host's configuration finds: a table of codes, findings, and reports of them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import ConfigFile
from accord_tools.hosts.documents.document import TextPlace
from accord_tools.hosts.operations.listing import FileEntry

if TYPE_CHECKING:
    from accord_tools.hosts.repairing import Repair


FindingSeverity: TypeAlias = Literal["error", "warning", "note"]
Blame: TypeAlias = Literal["accord", "entry", "server", "host", "machine"]


class FindingCode(NamedTuple):
    """One row of the table: how bad it is, what has to change, and a sentence for the docs."""

    severity: FindingSeverity
    blame: Blame
    sentence: str


def _error(blame: Blame, sentence: str) -> FindingCode:
    return FindingCode("error", blame, sentence)


def _warning(blame: Blame, sentence: str) -> FindingCode:
    return FindingCode("warning", blame, sentence)


def _note(blame: Blame, sentence: str) -> FindingCode:
    return FindingCode("note", blame, sentence)


CODES: Final[dict[str, FindingCode]] = {
    # -- files
    "file-unreadable": _error("machine", "The file exists, and cannot be read."),
    "file-syntax": _error("entry", "The file is not valid in its format, so the host ignores it."),
    "file-comments": _error("entry", "The file has comments or commas that its host refuses."),
    "file-mark": _error("entry", "The file begins with a mark that its host refuses."),
    "file-key": _error("entry", "Servers stand under a key that this host does not read."),
    "file-container": _error("entry", "The key of the servers holds another kind of value."),
    "file-not-read": _warning("entry", "The host reads another file in place of this one."),
    "file-several": _note("entry", "Several files of the host exist, and it reads only one."),
    # -- the shape of entries
    "entry-not-object": _error("entry", "The entry is not an object."),
    "entry-empty": _error("entry", "The entry has neither a command nor a URL."),
    "entry-both": _warning("entry", "The entry has a command and a URL; only one is used."),
    "member-name": _error("entry", "A member has the name that another host uses for it."),
    "member-unknown": _warning("entry", "The host does not know a member, which looks mistyped."),
    "member-ignored": _warning("host", "The host leaves out a member that others read."),
    "type-missing": _warning("entry", "The entry does not say its type, as this host expects."),
    "type-wrong": _error("entry", "The type is not one that this host knows, or fits not."),
    "command-text": _error("entry", "The command has to be a list of words in this host."),
    "command-list": _error("entry", "The command has to be one program; words go into args."),
    "command-blanks": _error("entry", "The command has arguments, which belong into args."),
    "args-text": _error("entry", "The arguments have to be a list of texts."),
    "env-object": _error("entry", "The variables have to be an object of texts."),
    "env-text": _warning("entry", "The value of a variable has to be a text."),
    "headers-object": _error("entry", "The headers have to be an object of texts."),
    "header-wrong": _error("entry", "A header has signs that headers cannot have."),
    "url-wrong": _error("entry", "The URL is not one of http or https."),
    "transport-missing": _error("host", "The host does not offer the transport of the entry."),
    "name-refused": _error("entry", "The host refuses the name of the entry."),
    "name-reserved": _error("entry", "The host keeps the name of the entry for itself."),
    "entry-unreadable": _error("entry", "The entry cannot be read."),
    # -- several entries
    "name-case": _warning("entry", "Two names differ only in upper and lower case."),
    "entry-twice": _warning("entry", "The same server is in the file under two names."),
    "entry-shadowed": _note("entry", "Another file of the host has an entry of the same name."),
    "entry-disabled": _note("entry", "The entry is switched off."),
    # -- what the command needs
    "program-path": _error("host", "The host's PATH lacks the program, which the terminal finds."),
    "program-missing": _error("machine", "The program does not exist."),
    "program-mode": _error("machine", "The program may not be executed."),
    "program-differs": _warning("host", "The host finds another program than the terminal."),
    "interpreter-dead": _error("machine", "The interpreter of the program is gone."),
    "interpreter-path": _error("host", "The host's PATH lacks the interpreter of the program."),
    "script-missing": _error("machine", "The script that the command names does not exist."),
    "folder-missing": _error("machine", "A folder that the entry names does not exist."),
    "path-relative": _warning("entry", "A path is relative, and the host runs in another folder."),
    "path-tilde": _error("entry", "A path begins with ~, which the host does not expand."),
    "throw-away": _warning("entry", "The entry runs from a folder that gets deleted."),
    # -- variables
    "variable-missing": _error("machine", "A variable that the entry needs is not set."),
    "variable-shell": _warning("host", "A variable is set in the terminal, not for the host."),
    "variable-ignored": _warning("host", "The host leaves out a variable that the entry sets."),
    "placeholder-unknown": _error("entry", "The host does not fill in this kind of placeholder."),
    "input-asked": _note("host", "The host asks its user for a value."),
    "secret-literal": _warning("entry", "A secret stands in the file as it is."),
    # -- launch and conversation
    "launch-skipped": _note("accord", "The server was not launched."),
    "start-failed": _error("machine", "The command could not be started."),
    "server-exited": _error("server", "The server ended before it answered."),
    "server-silent": _error("server", "The server did not answer in time."),
    "server-stays": _warning("server", "The server keeps running after its input was closed."),
    "handshake-refused": _error("server", "The server refused to begin a conversation."),
    "list-failed": _error("server", "The server declares a list, and fails to give it."),
    "stdout-noise": _error("server", "The server writes other things than messages to stdout."),
    "rule-broken": _warning("server", "The server breaks a rule of the protocol."),
    "url-unreachable": _error("machine", "The URL cannot be reached."),
    "url-refused": _error("server", "The URL does not answer as a server does."),
    "url-form": _error("entry", "The URL speaks the other form of HTTP."),
    "sign-in": _note("server", "The server asks for a sign-in, which the host does."),
    "deep-failed": _error("server", "The full check finds broken requirements."),
}
"""All findings, by code."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a check found.

    Attributes:
        code: of the table `CODES`.
        severity: how bad it is.
        blame: what has to change.
        message: what was found.
        change: what to do about it.
        entry: the name of the entry; empty if it is about the file.
        place: where it is in the file, if that is known.
        repair: how accord mends it; None if that is not certain.
    """

    code: str
    severity: FindingSeverity
    blame: Blame
    message: str
    change: str = ""
    entry: str = ""
    place: TextPlace | None = None
    repair: "Repair | None" = None


def new_finding(
    code: str,
    message: str,
    change: str = "",
    *,
    severity: FindingSeverity | None = None,
    blame: Blame | None = None,
    repair: "Repair | None" = None,
) -> Finding:
    """Return a finding with the severity and the blame of its code."""
    row = CODES[code]
    return Finding(
        code=code,
        severity=severity or row.severity,
        blame=blame or row.blame,
        message=message,
        change=change,
        repair=repair,
    )


# -- reports


class LaunchFacts(msgspec.Struct, kw_only=True):
    """What is known after a conversation.

    Attributes:
        transport: how the server was reached.
        revision: the revision of the conversation; empty if it did not begin.
        server: the name that the server gives itself.
        version: of the server.
        counts: how many entries each list has.
        milliseconds: from the launch, or the first request, to the first answer.
        stderr: its first and last lines on standard error, without secrets.
        needs_sign_in: whether it answers nothing without a sign-in.
        broken: requirements of the protocol that its messages broke.
        score: of the full check, in percent.
        failed: requirements that failed in the full check.
    """

    transport: str = "stdio"
    revision: str = ""
    server: str = ""
    version: str = ""
    counts: dict[str, int] = {}
    milliseconds: int = 0
    stderr: tuple[str, ...] = ()
    needs_sign_in: bool = False
    broken: tuple[str, ...] = ()
    score: float | None = None
    failed: tuple[str, ...] = ()


class FileReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one file.

    Attributes:
        file: which.
        findings: about the file, and about several entries of it.
        entries: the entries under the right key, by name.
    """

    file: ConfigFile
    findings: tuple[Finding, ...] = ()
    entries: Mapping[str, FileEntry] = {}

    @property
    def worst(self) -> FindingSeverity | None:
        """The severity of the worst finding; None without findings."""
        return worst_of(self.findings)


class EntryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one entry.

    Attributes:
        file: in which it is.
        name: of the entry.
        findings: the cheapest to see first.
        entry: as accord reads it; None if it cannot be read.
        launched: facts of the conversation; None if the server was not launched.
    """

    file: ConfigFile
    name: str
    findings: tuple[Finding, ...] = ()
    entry: ServerSpec | None = None
    launched: LaunchFacts | None = None

    @property
    def worst(self) -> FindingSeverity | None:
        """The severity of the worst finding; None without findings."""
        return worst_of(self.findings)


def worst_of(findings: Iterable[Finding]) -> FindingSeverity | None:
    """Return the severity of the worst finding; None without findings."""
    given = {each.severity for each in findings}
    order: tuple[FindingSeverity, ...] = ("error", "warning", "note")
    return next((each for each in order if each in given), None)
