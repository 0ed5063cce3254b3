"""The pytest plugin: fixtures that connect to a server over every transport and revision.

Only pytest is imported at first; the rest is loaded when a fixture is used.
"""

import inspect
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from accord.client import blocking
    from accord.testing.connection import Connected, ServerUnderTest, TransportName
    from accord.types import RevisionId

_FIXTURES: Final = frozenset({"accord_link", "connect_to", "accord_client", "accord_snapshot"})
_KEYWORDS: Final = frozenset({"transports", "revisions", "allow"})
# Seconds; a test that takes longer hangs.
_TIMEOUT: Final = "60"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    parser.addini(
        "accord_transports",
        "transports of the tests: memory, stdio, http, http-stream, sse (default: memory); a "
        "revision after a colon, as in stdio:2025-06-18, limits a transport to it",
        type="args",
        default=["memory"],
    )
    parser.addini(
        "accord_revisions",
        "revisions of the tests (default: all)",
        type="args",
        default=[],
    )
    parser.addini(
        "accord_allow",
        "ids of requirements that may be broken; * matches any part (default: practice.*)",
        type="args",
        default=["practice.*"],
    )
    parser.addini(
        "accord_timeout",
        "seconds that an async test run by this plugin may take (default: 60)",
        default=_TIMEOUT,
    )
    parser.getgroup("accord").addoption(
        "--accord-update", action="store_true", help="overwrite the files of accord_snapshot"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "accord(transports=..., revisions=..., allow=...): the transports and revisions of this "
        "test, and the requirements that may be broken",
    )


class AccordLink:
    """One transport and one revision that a test runs over; `connect_to` is its method `connect`.

    `connections` holds the connections made so far, each with its `recording`.
    """

    def __init__(
        self, transport: "TransportName", revision: "RevisionId", request: pytest.FixtureRequest
    ) -> None:
        self.transport: TransportName = transport
        self.revision: RevisionId = revision
        self.connections: list[Connected] = []
        self._request = request
        self._allow = tuple(_choice(request.node, request.config, "allow"))

    def __repr__(self) -> str:
        return f"<AccordLink {self.transport} {self.revision}>"

    def connect(self, target: "ServerUnderTest | None" = None, **options: Any) -> "Connected":
        """Connect over this link; takes what `accord.testing.connected` takes.

        Args:
            target: what to connect to; by default what the fixture `accord_server` returns.
            **options: in addition to, or instead of, those of the link.
        """
        from accord.testing.connection import connected

        if target is None:
            target = self._request.getfixturevalue("accord_server")
        options.setdefault("transport", self.transport)
        if "revisions" not in options:
            options.setdefault("revision", self.revision)
        options["allow"] = (*self._allow, *options.get("allow", ()))
        connection = connected(target, **options)
        self.connections.append(connection)
        return connection


class AccordSnapshot:
    """Compares what a server shows with a file beside the test; `--accord-update` writes it."""

    def __init__(self, folder: Path, name: str, *, update: bool) -> None:
        self._folder = folder
        self._name = name
        self._update = update

    def check(self, catalog: Any, name: str | None = None) -> None:
        """Fail if it differs from the file; write the file if it does not exist.

        Args:
            catalog: what `accord.testing.catalog_of` returned, or any other JSON.
            name: of the file; by default that of the test.
        """
        from accord.testing.catalog import check_catalog

        check_catalog(catalog, self._folder / f"{name or self._name}.json", update=self._update)


@pytest.fixture
def accord_link(request: pytest.FixtureRequest) -> AccordLink:
    """The transport and revision that the test runs over now."""
    transport, revision = request.param
    return AccordLink(transport, revision, request)


@pytest.fixture
def connect_to(accord_link: AccordLink) -> Any:
    """Connects to a server: `async with` gives the client, a plain `with` the blocking one."""
    return accord_link.connect


@pytest.fixture
def accord_client(accord_link: AccordLink) -> "Iterator[blocking.Client]":
    """A blocking client connected to what the fixture `accord_server` returns."""
    with accord_link.connect() as client:
        yield client


@pytest.fixture
def accord_snapshot(request: pytest.FixtureRequest) -> AccordSnapshot:
    """Compares what a server shows with a file in the folder `snapshots` beside the test."""
    update = bool(request.config.getoption("--accord-update"))
    name: str = request.node.name
    safe = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)
    return AccordSnapshot(request.path.parent / "snapshots", safe, update=update)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that use a link once for each transport and revision."""
    if "accord_link" not in metafunc.fixturenames:
        return
    from accord.protocol.revisions import REVISIONS

    node = metafunc.definition
    transports = _choice(node, metafunc.config, "transports")
    revisions = _choice(node, metafunc.config, "revisions") or list(REVISIONS)
    links = [link for transport in transports for link in _links(transport, revisions)]
    _refuse_unknown(node, links)
    metafunc.parametrize(
        "accord_link", links, indirect=True, ids=["-".join(link) for link in links]
    )


def _links(transport: str, revisions: list[str]) -> list[tuple[str, str]]:
    """Combine a transport with the revisions, or with the one after its colon.

    The older form of HTTP carries revisions with a handshake alone; the others are left out.
    """
    from accord.protocol.revisions import HANDSHAKE, REVISIONS

    name, _, named = transport.partition(":")
    if name == "sse" and not named:
        revisions = [each for each in revisions if each in HANDSHAKE or each not in REVISIONS]
    return [(name, revision) for revision in ([named] if named else revisions)]


def _refuse_unknown(node: pytest.Item | pytest.Collector, links: list[tuple[str, str]]) -> None:
    """Fail for unknown keywords, transports and revisions."""
    from accord.protocol.revisions import REVISIONS
    from accord.testing.connection import TRANSPORTS

    for marker in node.iter_markers("accord"):
        if marker.args or not marker.kwargs.keys() <= _KEYWORDS:
            given = ", ".join([*map(repr, marker.args), *marker.kwargs])
            known = ", ".join(sorted(_KEYWORDS))
            pytest.fail(f"pytest.mark.accord takes {known} by keyword, not {given}", pytrace=False)
        for name, value in marker.kwargs.items():
            if isinstance(value, str):
                pytest.fail(f"pytest.mark.accord({name}=...) takes a list", pytrace=False)
    for transport, revision in links:
        if transport not in TRANSPORTS:
            known = ", ".join(TRANSPORTS)
            pytest.fail(f"unknown transport {transport!r}; known: {known}", pytrace=False)
        if revision not in REVISIONS:
            known = ", ".join(REVISIONS)
            pytest.fail(f"unknown revision {revision!r}; known: {known}", pytrace=False)


def _choice(node: pytest.Item | pytest.Collector, config: pytest.Config, name: str) -> list[str]:
    """Return the value of the closest marker, else of the configuration."""
    for marker in node.iter_markers("accord"):
        if name in marker.kwargs:
            return list(marker.kwargs[name])
    return list(config.getini(f"accord_{name}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail the test itself, not its teardown, for breaches on a connection that is open."""
    yield
    link = getattr(item, "funcargs", {}).get("accord_link")
    if isinstance(link, AccordLink):
        for connection in link.connections:
            connection.check()


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run async tests that use our fixtures or have our marker, unless another plugin does."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    is_marked = pyfuncitem.get_closest_marker("accord") is not None
    if not is_marked and _FIXTURES.isdisjoint(pyfuncitem.fixturenames):
        return None
    import asyncio

    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    seconds = float(pyfuncitem.config.getini("accord_timeout"))

    async def run_within_limit() -> None:
        async with asyncio.timeout(seconds):
            await pyfuncitem.obj(**arguments)

    asyncio.run(run_within_limit())
    return True
