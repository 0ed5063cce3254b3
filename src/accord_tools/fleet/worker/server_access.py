"""How a worker reaches its server: with the client, with the checker, and with what token."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from accord.errors import AccordError, ConnectFailed, FlowFailed
from accord.stdio.error_lines import FirstAndLastLines, find_cause
from accord_tools.fleet.worker.job import WorkerJob

if TYPE_CHECKING:
    from accord.client import ConnectOptions
    from accord.types import RevisionId
    from accord_tools.check.probing.target import ServerTarget

# Lines of standard error that a report has, and how long each may be.
_STDERR_LINES: Final = 40
_STDERR_LENGTH: Final = 1_000
_SAID_LENGTH: Final = 200
# The least seconds that a server may take to start: some fetch packages first.
_STARTING: Final = 30.0
# The part of the whole time that may be spent on that.
_STARTING_SHARE: Final = 0.75
_ADVICE: Final = 'pass auth="oauth" to obtain a token, or auth="..." with one'
_FLEET_ADVICE: Final = 'add a header Authorization with a token to its entry, or auth = "oauth"'


class KeptStderr:
    """The first and last lines that a server wrote to standard error."""

    def __init__(self) -> None:
        self._lines = FirstAndLastLines(_STDERR_LINES)

    def __call__(self, line: str) -> None:
        """Keep a line; a long one is cut."""
        is_long = len(line) > _STDERR_LENGTH
        self._lines.add(f"{line[:_STDERR_LENGTH]}..." if is_long else line)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines, the oldest first."""
        return tuple(self._lines)


class ServerAccess:
    """What is needed to connect to the server of a job.

    Args:
        job: names the server.

    Attributes:
        stderr: takes what launched copies write there.
        token: obtained by OAuth; empty without one.
    """

    def __init__(self, job: WorkerJob) -> None:
        self.job = job
        self.stderr = KeptStderr()
        self.token = ""
        self._oauth: Any = None

    @property
    def target(self) -> "list[str] | str":
        """What `accord.connect` takes."""
        return self.job.server.url or list(self.job.server.command)

    def connect_options(self, revision: "RevisionId | None" = None) -> "ConnectOptions":
        """Return the options of `accord.connect`; without a revision the newest is agreed on."""
        job, server = self.job, self.job.server
        options: ConnectOptions = {
            **replace(server, headers=self.headers, auth=None).options,
            "revision": revision,
            "timeout": job.patience,
            "connect_timeout": max(min(_STARTING, job.time * _STARTING_SHARE), job.patience),
        }
        if not server.url:
            # As in a shell, the server sees the variables of this process.
            options["env"] = server.environment
            options["stderr"] = self.stderr
        elif server.auth == "oauth" and not self.token:
            options["auth"] = self._authorizer()
        return options

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every request; with the token, if there is one."""
        own = dict(self.job.server.headers)
        return {**own, "Authorization": f"Bearer {self.token}"} if self.token else own

    def _authorizer(self) -> Any:
        from accord.auth import OAuth

        if self._oauth is None:
            self._oauth = OAuth(client_name="accord fleet", open_browser=self._refuse_browser)
        return self._oauth

    def _refuse_browser(self, _url: str) -> bool:
        shown = self.job.server.shown or self.job.server.url
        raise FlowFailed(
            "authorization",
            came="the server wants a user to sign in, which a worker cannot do",
            hint=f"accord call {shlex.quote(shown)} --oauth: sign in once, the token is kept",
        )

    async def keep_token(self) -> None:
        """Keep the token that connecting has obtained, for the stages that follow."""
        if self._oauth is not None:
            self.token = await self._oauth.token(self.job.server.url) or ""

    def check_target(self) -> "ServerTarget":
        """Return the server as the checker takes it."""
        from accord_tools.check.probing.target import ServerTarget

        job, server = self.job, self.job.server
        settings: dict[str, Any] = {}
        if job.one_at_a_time:
            settings = {"one_at_a_time": True, "at_once": 1}
        elif job.at_once is not None:
            settings = {"at_once": job.at_once}
        spec = replace(server, name=server.shown or server.name, headers=self.headers)
        return ServerTarget(spec=spec, patience=job.patience, **settings)

    def explain(self, error: BaseException) -> str:
        """Return why the server could not be reached, without its command line."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        text = str(error) or type(error).__name__
        if isinstance(error, AccordError):
            joined = shlex.join(self.job.server.command)
            shown = (joined, f"{joined[:97]}...", joined[:120])
            for each in shown if joined else ():
                text = text.removeprefix(f"{each}: ")
            # Lines of its standard error are reported beside it.
            if isinstance(error, ConnectFailed) and error.stderr:
                said = find_cause(error.stderr.splitlines())
                text = f"{text.partition('; it said: ')[0]}; it said: {said[:_SAID_LENGTH]}"
        elif not isinstance(error, ValueError | OSError):
            text = f"{type(error).__name__}: {text}"
        return text.replace(_ADVICE, _FLEET_ADVICE)
