"""Checks one entry: its shape, what its command needs, and a conversation with its server."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.secrets.masks import Secrets
from accord_tools.hosts.checking.commands import CommandCheck
from accord_tools.hosts.checking.findings import (
    EntryReport,
    Finding,
    FindingSeverity,
    new_finding,
    worst_of,
)
from accord_tools.hosts.checking.launch import check_deeply, hider_of, target_of, try_server
from accord_tools.hosts.checking.shape import find_shape_faults, fixes_form
from accord_tools.hosts.definition import ConfigFile, Host, HostsError, KeyPath, Machine
from accord_tools.hosts.entries.literals import find_literals
from accord_tools.hosts.entries.shaping import from_host
from accord_tools.hosts.launching.environment import (
    LaunchSettings,
    host_environment,
    input_variable,
    shapes_of,
    takes_names,
    variables_in,
)
from accord_tools.hosts.operations.listing import FileEntry
from accord_tools.hosts.repairing import Repair, change_entry

if TYPE_CHECKING:
    from accord.client.server_spec import ServerSpec

_DEFAULT_SECONDS: Final = 20.0
# Texts that some host fills in; the last groups are names of variables.
_TOKEN: Final = re.compile(
    r"\$\{\{\s*secrets\.(\w+)\s*\}\}|\$\{(?:env:)?([A-Z_][A-Z0-9_]*)\}|\{env:(\w+)\}"
    r"|\$\{env:(\w+)\}|\$\{input:[^{}]+\}"
)


async def check_entry(
    file: ConfigFile,
    name: str,
    keys: KeyPath,
    value: Any,
    machine: Machine,
    *,
    deep: bool = False,
    seconds: float = _DEFAULT_SECONDS,
    granted: Collection[str] | None = None,
) -> EntryReport:
    """Check an entry, the cheapest first, and launch its server as the host would.

    Args:
        file: of the entry.
        name: of the entry.
        keys: where it is in the file.
        value: as it stands in the file.
        machine: where its host runs.
        deep: whether the full check of servers runs, too.
        seconds: for the conversation.
        granted: the variables that a server of a project's file may have; None if it must not be
            launched.
    """
    check = EntryCheck(file, name, keys, value, machine)
    findings = list(check.find_faults())
    entry, settings = check.entry, check.settings
    report = EntryReport(file=file, name=name, findings=tuple(findings), entry=entry)
    if entry is None or settings is None:
        return report
    why = _launch_refusal(file, check, findings, granted)
    if why:
        skipped = new_finding("launch-skipped", f"the server was not launched: {why}")
        return msgspec.structs.replace(report, findings=(*findings, _about(skipped, name)))
    has_form = fixes_form(value, file.host)
    facts, found = await try_server(entry, settings, seconds, has_form=has_form)
    if deep and facts.revision and not facts.needs_sign_in:
        target = target_of(entry, settings, seconds, has_form=has_form)
        found += await check_deeply(target, facts, hider_of(entry, settings))
    found = [check.mend_form(each, facts.transport) for each in found]
    findings += [_about(each, name) for each in found]
    return msgspec.structs.replace(report, findings=tuple(findings), launched=facts)


def inspect_entry(file: ConfigFile, found: FileEntry, machine: Machine) -> EntryReport:
    """Check an entry without a launch."""
    check = EntryCheck(file, found.name, found.keys, found.value, machine)
    findings = tuple(check.find_faults())
    return EntryReport(file=file, name=found.name, findings=findings, entry=check.entry)


def _launch_refusal(
    file: ConfigFile,
    check: "EntryCheck",
    findings: list[Finding],
    granted: Collection[str] | None,
) -> str:
    """Return why a server is not launched; empty if it is."""
    entry, settings = check.entry, check.settings
    assert entry is not None
    assert settings is not None
    if entry.disabled:
        return "it is switched off"
    if worst_of(findings) == "error":
        return "its host does not get that far"
    if settings.url and not settings.url.lower().startswith(("http://", "https://")):
        return "accord reaches servers by http and https alone"
    if settings.asked:
        names = ", ".join(map(input_variable, settings.asked))
        return f"its host asks for a value; set {names} to check it"
    if not file.is_shared:
        return ""
    if granted is None:
        return "it is of a project's file, which others may have written"
    withheld = [each for each in variables_in(entry) if each not in granted]
    if withheld:
        names = ", ".join(withheld)
        return (
            f"it names {names}, and others may have written this file: --env {withheld[0]} lets it "
            "have the value of this shell"
        )
    return ""


def _about(finding: Finding, name: str) -> Finding:
    return msgspec.structs.replace(finding, entry=name)


class EntryCheck:
    """Everything about one entry that is seen without a launch.

    Attributes:
        entry: as accord reads it; None until `find_faults` has read it.
        settings: as the host launches it; likewise.
    """

    def __init__(
        self, file: ConfigFile, name: str, keys: KeyPath, value: Any, machine: Machine
    ) -> None:
        self._file = file
        self._host = file.host
        self._name = name
        self._keys = keys
        self._value = value
        self._machine = machine
        self._mask = Secrets().mask_text
        self.entry: ServerSpec | None = None
        self.settings: LaunchSettings | None = None

    def find_faults(self) -> Iterator[Finding]:
        """Yield what is wrong, the cheapest to see first."""
        for each in self._find():
            # A word of a command may be a secret, too.
            message, change = self._mask(each.message), self._mask(each.change)
            found = msgspec.structs.replace(each, message=message, change=change)
            yield _about(found, self._name)

    def _find(self) -> Iterator[Finding]:
        yield from self._check_name()
        has_errors = False
        for code, message, change, mended, severity in find_shape_faults(self._value, self._host):
            repair = None if mended is None else self._repair(code, change, mended)
            found = new_finding(code, message, change, severity=severity, repair=repair)
            has_errors |= found.severity == "error"
            yield found
        try:
            self.entry = from_host(self._name, self._value, self._host)
        except HostsError as error:
            if not has_errors:
                yield new_finding("entry-unreadable", str(error))
            return
        if self.entry.disabled:
            yield new_finding("entry-disabled", "it is switched off in the file")
        yield from self._check_placeholders()
        yield from self._check_secrets()
        if has_errors:
            return
        self.settings = host_environment(self._host, self._machine, self.entry)
        yield from self._check_variables(self.settings)
        if self.entry.form == "stdio" and any(self.settings.command[:1]):
            yield from self._check_command(self.settings)

    def _repair(self, code: str, title: str, mended: Mapping[str, Any]) -> Repair:
        values = (self._value, mended)
        return change_entry(code, self._mask(title), self._file, self._name, self._keys, values)

    def _check_name(self) -> Iterator[Finding]:
        host, name = self._host, self._name
        if name in host.reserved:
            message = f"{host.name} keeps the name {name} for itself"
            yield new_finding("name-reserved", message, "choose another name")
        elif host.name_pattern and not re.fullmatch(host.name_pattern, name):
            message = f"{host.name} takes names that match {host.name_pattern}"
            yield new_finding("name-refused", message, "choose another name")

    # -- values

    def _check_placeholders(self) -> Iterator[Finding]:
        """Look for placeholders of other hosts, which this one passes on as they are."""
        known = _known_forms(self._host)
        for member, label, text in _texts_of(self._value):
            for found in _TOKEN.finditer(text):
                if known is not None and known.search(found[0]):
                    continue
                variable = next((each for each in found.groups() if each), None)
                own = self._host.placeholders.env
                mended = None
                change = f"{self._host.name} has no placeholders: let accord exec read a file"
                if own and variable:
                    form = own.replace("NAME", variable)
                    change = f"write {form}"
                    mended = _replace_text(self._value, member, label, found[0], form)
                message = f"{label or member} has {found[0]}, which {self._host.name} passes on"
                code = "placeholder-unknown"
                repair = None if mended is None else self._repair(code, change, mended)
                yield new_finding(code, message, change, repair=repair)
                return

    def _check_secrets(self) -> Iterator[Finding]:
        is_shared = self._file.scope == "project"
        severity: FindingSeverity = "error" if is_shared else "warning"
        for literal in find_literals(self._name, self._value):
            forms = self._host.placeholders
            change = f"write it as the variable {literal.variable}"
            if not forms.env and not forms.input:
                change = "put it into a file for accord exec --env-file"
            where = "; others get the file of a project" if is_shared else ""
            message = f"{literal.label} is a secret as it stands{where}"
            yield new_finding("secret-literal", message, change, severity=severity)

    def _check_variables(self, settings: LaunchSettings) -> Iterator[Finding]:
        host = self._host.name
        # Hosts that take names pass on what they have, or keep values themselves.
        severity: FindingSeverity = "warning" if takes_names(self._host) else "error"
        for name in settings.missing:
            message, change = f"{name} is not set", f"set {name}"
            yield new_finding("variable-missing", message, change, severity=severity)
        for name in settings.of_shell:
            message = f"{name} is set in this terminal, but {host} starts without it"
            change = f"start {host} from a terminal, or set {name} for the whole session"
            yield new_finding("variable-shell", message, change)
        for name in settings.ignored:
            yield new_finding("variable-ignored", f"{host} leaves out {name}", "remove it")
        for name in settings.asked:
            yield new_finding("input-asked", f"{host} asks for {name}")

    # -- the command

    def _check_command(self, settings: LaunchSettings) -> Iterator[Finding]:
        assert self.entry is not None
        check = CommandCheck(self._file, self._machine, settings, self.entry)
        for fault in check.find_faults():
            mended = None
            if fault.words is not None:
                mended = splice_command(self._value, self._host, fault.words)
                if mended is not None and fault.env:
                    mended = _add_env(mended, self._host, fault.env)
            repair = None if mended is None else self._repair(fault.code, fault.change, mended)
            yield new_finding(
                fault.code, fault.message, fault.change, severity=fault.severity, repair=repair
            )

    def mend_form(self, finding: Finding, transport: str) -> Finding:
        """Add a repair to the finding that a URL speaks the other form of HTTP."""
        shape = self._host.sse if transport == "sse" else self._host.http
        if finding.code != "url-form" or shape is None or "type" not in shape.constants:
            return finding
        mended = {**self._value, "type": shape.constants["type"]}
        repair = self._repair(finding.code, finding.change, mended)
        return msgspec.structs.replace(finding, repair=repair)


def _known_forms(host: Host) -> re.Pattern[str] | None:
    """Return an expression of the placeholders that a host fills in."""
    forms = host.placeholders
    given = [each for each in (forms.env, forms.default, forms.input, *forms.also) if each]
    parts = []
    for each in given:
        text = re.sub(r"(?:\\ )+", r"\\s*", re.escape(each))
        parts.append(text.replace("NAME", r"[^{}$:]+", 1).replace("DEFAULT", "[^{}]*", 1))
    return re.compile("|".join(parts)) if parts else None


def _texts_of(value: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield member, name and text of what a host may fill in: variables, headers and URL."""
    for member, each in value.items():
        if isinstance(each, str) and "://" in each:
            yield member, "", each
        for name, text in each.items() if isinstance(each, Mapping) else ():
            if isinstance(text, str):
                yield member, str(name), text


def _replace_text(
    value: Mapping[str, Any], member: str, label: str, before: str, after: str
) -> dict[str, Any]:
    given = value[member]
    if isinstance(given, str):
        return {**value, member: given.replace(before, after)}
    return {**value, member: {**given, label: given[label].replace(before, after)}}


def splice_command(
    value: Mapping[str, Any], host: Host, words: Mapping[int, tuple[str, ...]]
) -> dict[str, Any] | None:
    """Return an entry with some words of its command replaced; None if it is written otherwise.

    Args:
        value: the entry.
        host: says how commands are written.
        words: the words in place of one, by its index.
    """
    names = {
        field: name
        for shape in shapes_of(host)
        for name, field in shape.members.items()
        if field in ("program", "args", "command") and (name in value or field == "args")
    }
    whole = value.get(names.get("command", ""))
    program, args = value.get(names.get("program", "")), value.get(names.get("args", ""), [])
    before: list[Any]
    if isinstance(whole, list):
        before = whole
    elif isinstance(program, str) and isinstance(args, list):
        before = [program, *args]
    else:
        return None
    after = [each for at, word in enumerate(before) for each in words.get(at, (word,))]
    if after == before:
        return dict(value)
    if isinstance(whole, list):
        return {**value, names["command"]: after}
    changed = {**value, names["program"]: after[0]}
    if after[1:] != args:
        changed[names["args"]] = after[1:]
    return changed


def _add_env(value: Mapping[str, Any], host: Host, env: Mapping[str, str]) -> dict[str, Any]:
    assert host.stdio is not None
    name = next((each for each, field in host.stdio.members.items() if field == "env"), "env")
    given = value.get(name)
    return {**value, name: {**(given if isinstance(given, Mapping) else {}), **env}}
