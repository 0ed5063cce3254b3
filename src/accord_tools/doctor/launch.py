"""The steps of `accord doctor` for a launched server, from its command to its first call."""

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.client import connect
from accord.client.server_spec import ServerSpec
from accord.errors import AccordError
from accord.protocol.revisions import BEFORE_HANDSHAKE
from accord_tools.arguments.samples import plain_arguments
from accord_tools.check.probing.messages import MessageLog, Reply, shorten
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.probing.target import StdioCarrier
from accord_tools.check.probing.tool_calls import tool_refusal
from accord_tools.diagnosis.steps import DiagnosisStep, StepList, Stopped
from accord_tools.hosts.checking.launch import advise_program, advise_start, quote_stderr

if TYPE_CHECKING:
    from accord.client import Client

# What a program that is launched from a desktop finds, without the profile of a shell.
_PATH_OF_DESKTOPS: Final = os.pathsep.join(
    ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
)
# A value that is to be filled in: ${input:key}, ${env:KEY}, $KEY, <your key>, YOUR_API_KEY.
_TO_FILL_IN: Final = re.compile(r"\$\{[^}]*\}|\$[A-Z_]{3,}|<[^<>]+>|\byour[-_ ]\w+", re.IGNORECASE)
_SCRIPTS: Final = frozenset({".py", ".js", ".mjs", ".cjs", ".ts"})
_LINE: Final = 200
_LEAVING: Final = 2.0


class LaunchDiagnosis(StepList):
    """Launches a server step by step, and keeps the result of each step.

    Args:
        entry: the command, and what a host sets for it.
        seconds: how long one step may take.
        report: called with each step as soon as it is done.
    """

    unreachable = frozenset({"command", "start"})

    def __init__(
        self,
        entry: ServerSpec,
        *,
        seconds: float = 10.0,
        report: Callable[[DiagnosisStep], object] = lambda _step: None,
    ) -> None:
        super().__init__(shlex.join(entry.command), report)
        self._entry = entry
        self._seconds = seconds

    async def run(self) -> None:
        """Take the steps in order, until one fails so that no further step makes sense."""
        with contextlib.suppress(Stopped):
            self._find_program()
            self._find_scripts()
            self._look_at_variables()
            await self._start()
            await self._talk()

    # -- before the start

    def _find_program(self) -> None:
        program = self._entry.command[0]
        asked = f"the program {program}"
        env = {**os.environ, **self._entry.env}
        found = shutil.which(program, path=env.get("PATH"))
        if found is None:
            self.stop("command", asked=asked, came="not found", change=advise_program(program))
        if os.path.dirname(program) and not os.path.isabs(program):
            came = f"{found}, relative to the current folder"
            change = f"write {os.path.abspath(found)}: a host runs in another folder"
            self.add("command", "warning", asked=asked, came=came, change=change)
        elif os.path.isabs(program) or shutil.which(program, path=_PATH_OF_DESKTOPS):
            self.add("command", "ok", asked=asked, came=found)
        else:
            change = f"write {found} in the configuration of a host, which may have a shorter PATH"
            came = f"{found}, by the PATH of this shell alone"
            self.add("command", "warning", asked=asked, came=came, change=change)

    def _find_scripts(self) -> None:
        folder = Path(self._entry.cwd or ".")
        for word in self._entry.command[1:]:
            if Path(word).suffix not in _SCRIPTS or word.startswith("-"):
                continue
            asked = f"the file {word}"
            if not (folder / word).is_file():
                change = "correct the path" + ("" if os.path.isabs(word) else "; make it absolute")
                self.stop("command", asked=asked, came="there is no such file", change=change)
            if not os.path.isabs(word) and self._entry.cwd is None:
                change = f"write {(folder / word).absolute()}: a host runs in another folder"
                came = "a path relative to the current folder"
                self.add("command", "warning", asked=asked, came=came, change=change)

    def _look_at_variables(self) -> None:
        entry = self._entry
        if not entry.env:
            return
        asked = "the variables of the entry"
        came = ", ".join(entry.env)  # never their values
        to_fill_in = [name for name, value in entry.env.items() if _TO_FILL_IN.search(value)]
        if to_fill_in:
            change = f"fill in {', '.join(to_fill_in)}"
            self.add("environment", "warning", asked=asked, came=came, change=change)
        else:
            self.add("environment", "ok", asked=asked, came=came)

    # -- the process

    async def _start(self) -> None:
        """Launch it, do a handshake and close its input; see what it wrote and how it ended."""
        carrier = StdioCarrier(
            self._entry.command, env=self._entry.env, cwd=self._entry.cwd, leaving=_LEAVING
        )
        log = MessageLog("stdio", "server", is_judged=False)
        line = RawConnection(carrier, log, patience=self._seconds, starting=self._seconds)
        asked = f"launch, then initialize with {BEFORE_HANDSHAKE.id}"
        failure = ""
        reply: Reply | None = None
        try:
            async with line:
                reply = await line.initialize(BEFORE_HANDSHAKE.id)
        except (ConnectionEnded, MessageTimeout, AccordError) as error:
            failure = str(error)
        stray = [each.raw for each in log.records if each.sender == "server" and each.raw]
        if stray:
            self._report_stray(stray)
        if failure:
            change = advise_start(carrier.stderr, stray)
            came = f"{failure}{quote_stderr(carrier.stderr)}"
            self.stop("start", asked=asked, came=came, change=change)
        assert reply is not None
        took = f"answered after {line.first_answer:.2g} s"
        self.add("start", "ok", asked=asked, came=took)
        if carrier.stderr:
            came = quote_stderr(carrier.stderr).lstrip("; ")
            self.add("stderr", "ok", asked="what it writes to standard error", came=came)
        asked = "exit after its input was closed"
        if carrier.left_by_itself:
            self.add("exit", "ok", asked=asked, came=carrier.child.state)
        else:
            change = "end when standard input ends: hosts have to kill it otherwise"
            came = f"it still ran after {_LEAVING:g} s"
            self.add("exit", "warning", asked=asked, came=came, change=change)

    def _report_stray(self, lines: Sequence[str]) -> None:
        change = "write nothing but messages to standard output: print to standard error, log there"
        asked = "nothing but messages on standard output"
        came = f"{len(lines)} line(s) that are not messages: {shorten(lines[0], _LINE)!r}"
        self.add("stdout", "failed", asked=asked, came=came, change=change)

    # -- the protocol

    async def _talk(self) -> None:
        """Connect as a client does, with the newest revision that both speak."""
        entry = self._entry
        asked = "a conversation in the newest revision"
        try:
            async with connect(
                list(entry.command),
                env={**os.environ, **entry.env},
                cwd=entry.cwd,
                timeout=self._seconds,
                connect_timeout=self._seconds,
                probe_timeout=self._seconds / 2,
            ) as client:
                info = client.server_info
                came = f"{info.name} {info.version}, revision {client.revision}"
                self.add("initialize", "ok", asked=asked, came=came)
                await self._list_and_call(client)
        except AccordError as error:
            # A failed list is another step than a conversation that does not begin.
            name = "initialize" if self.steps[-1].name not in ("initialize", "list") else "list"
            self.add(name, "failed", asked=asked, came=str(error))

    async def _list_and_call(self, client: "Client") -> None:
        from accord.testing.catalog import fetch_lists

        lists = await fetch_lists(client)
        counts = ", ".join(f"{kind}: {len(each)}" for kind, each in lists.entries.items() if each)
        for method, error in lists.failed.items():
            change = "answer it, or do not declare its capability"
            self.add("list", "failed", asked=method, came=str(error), change=change)
        if not lists.failed:
            came = counts or "it declares nothing to list"
            self.add("list", "ok", asked="its lists", came=came)
        chosen = _harmless_tool(lists.entries.get("tools") or ())
        if chosen is None:
            came = "no tool says that it only reads, and can be called without knowing more"
            self.add("call", "skipped", came=came)
            return
        name, arguments = chosen
        asked = f"tools/call of {name}"
        try:
            result = await client.call_tool(name, arguments)
        except AccordError as error:
            self.add("call", "failed", asked=asked, came=str(error))
            return
        if getattr(result, "is_error", False):
            came = f"the tool says that it failed: {shorten(str(result.text), _LINE)}"
            self.add("call", "warning", asked=asked, came=came)
        else:
            self.add("call", "ok", asked=asked, came="a result")


def _harmless_tool(tools: Sequence[Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return a tool that may be called without asking, with arguments."""
    import msgspec

    for tool in tools:
        listed = msgspec.to_builtins(tool)
        arguments = plain_arguments(listed.get("inputSchema"))
        if tool_refusal(listed) is None and arguments is not None:
            return str(listed["name"]), arguments
    return None
