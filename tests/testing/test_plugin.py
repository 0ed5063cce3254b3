"""The pytest plugin, in separate runs of pytest."""

import subprocess
import sys
from pathlib import Path

import pytest

from accord.types import REVISION_IDS
from support import testing_servers
from support.waiting import LONG

pytest_plugins = ["pytester"]

CONFTEST = """
import sys
sys.path.insert(0, {folder!r})
import pytest
from support import testing_servers as servers

@pytest.fixture
def accord_server():
    return servers.good
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    folder = str(Path(testing_servers.__file__).parents[1])
    pytester.makeconftest(CONFTEST.format(folder=folder))
    pytester.makeini("[pytest]\n")
    return pytester


def ran(project: pytest.Pytester, code: str, *options: str, **counts: int) -> str:
    project.makepyfile(code)
    result = project.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:cov", *options)
    result.assert_outcomes(**counts)
    return str(result.stdout)


def test_an_async_test_runs_in_every_revision_without_any_other_plugin(
    project: pytest.Pytester,
) -> None:
    code = """
        async def test_add(connect_to):
            async with connect_to() as client:
                assert await client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
    """
    out = ran(project, code, "-v", passed=5)
    for revision in REVISION_IDS:
        assert f"test_add[memory-{revision}] PASSED" in out


def test_a_plain_test_gets_a_blocking_client(project: pytest.Pytester) -> None:
    code = """
        def test_add(accord_client, accord_link):
            assert accord_client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
            assert accord_client.revision == accord_link.revision
    """
    ran(project, code, passed=5)


def test_the_marker_chooses_transports_and_revisions(project: pytest.Pytester) -> None:
    code = """
        import os, pytest
        from support import testing_servers as servers

        @pytest.mark.accord(transports=["memory", "stdio:2025-03-26"], revisions=["2025-06-18"])
        async def test_where(connect_to, accord_link):
            async with connect_to(servers.make) as client:
                pid = await client.call_tool("where", result_type=int)
            assert (pid == os.getpid()) == (accord_link.transport == "memory")
            assert repr(accord_link) == f"<AccordLink {accord_link.transport} {client.revision}>"
    """
    out = ran(project, code, "-v", passed=2)
    assert "test_where[memory-2025-06-18]" in out
    assert "test_where[stdio-2025-03-26]" in out


def test_an_invalid_marker_is_refused(project: pytest.Pytester) -> None:
    messages = {
        "revision=['2025-06-18']": "takes allow, revisions, transports by keyword, not revision",
        "'memory'": "takes allow, revisions, transports by keyword, not 'memory'",
        "transports='memory'": "(transports=...) takes a list",
        "transports=['pigeon']": "unknown transport 'pigeon'; known: memory, stdio",
        "transports=['stdio:soon']": "unknown revision 'soon'; known: 2024-11-05",
    }
    for number, marker in enumerate(messages):
        code = """
            import pytest

            @pytest.mark.accord({marker})
            async def test_where(connect_to):
                pass
        """
        project.makepyfile(**{f"test_{number}": code.format(marker=marker)})
    result = project.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:cov")
    result.assert_outcomes(errors=len(messages))
    for words in messages.values():
        assert words in str(result.stdout)


def test_http_is_a_transport_like_the_others(project: pytest.Pytester) -> None:
    code = """
        import pytest

        @pytest.mark.accord(transports=["http:2025-06-18", "http-stream:2025-03-26", "sse"],
                            revisions=["2024-11-05"])
        async def test_add(connect_to, accord_link):
            async with connect_to() as client:
                assert await client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
            (connection,) = accord_link.connections
            assert accord_link.transport.startswith(connection.recording.transport)

        @pytest.mark.accord(transports=["http:2025-06-18"])
        def test_add_plainly(accord_client):
            assert accord_client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
    """
    out = ran(project, code, "-v", passed=4)
    assert "test_add[http-2025-06-18]" in out
    assert "test_add[http-stream-2025-03-26]" in out
    assert "test_add[sse-2024-11-05]" in out


def test_the_configuration_chooses_transports_and_revisions(project: pytest.Pytester) -> None:
    project.makeini(
        "[pytest]\naccord_transports = stdio\naccord_revisions = 2025-03-26\n"
        "accord_allow = tools.*\n"
    )
    code = """
        from support import testing_servers as servers

        async def test_lie(connect_to, accord_link):
            assert (accord_link.transport, accord_link.revision) == ("stdio", "2025-03-26")
            async with connect_to(servers.make_bad, revision="2025-06-18") as client:
                await client.call_tool("lie")
    """
    ran(project, code, passed=1)


@pytest.mark.parametrize(
    "body",
    [
        """
        async def test_lie(connect_to):
            async with connect_to(servers.make_bad) as client:
                await client.call_tool("lie")
        """,
        """
        async def test_lie(connect_to):
            client = await connect_to(servers.make_bad).__aenter__()
            await client.call_tool("lie")
            await client.close()
        """,
        """
        @pytest.fixture
        def accord_server():
            return servers.make_bad

        def test_lie(accord_client):
            accord_client.call_tool("lie")
        """,
    ],
    ids=["async", "left open", "blocking"],
)
def test_a_violation_fails_the_test_itself_and_only_once(
    project: pytest.Pytester, body: str
) -> None:
    from textwrap import dedent

    code = "import pytest\nfrom support import testing_servers as servers\n" + dedent(body)
    project.makeini("[pytest]\naccord_revisions = 2025-06-18\n")
    out = ran(project, code, failed=1)
    assert "tools.structured-content.also-text" in out


def test_a_breach_may_be_allowed_by_marker_or_by_connection(project: pytest.Pytester) -> None:
    code = """
        import pytest
        from support import testing_servers as servers

        @pytest.mark.accord(allow=["tools.structured-content.*"])
        async def test_marked(connect_to):
            async with connect_to(servers.make_bad) as client:
                await client.call_tool("lie")

        async def test_named(connect_to):
            async with connect_to(servers.make_bad, allow=["tools.*"]) as client:
                await client.call_tool("lie")
    """
    ran(project, code, passed=10)


def test_a_test_that_hangs_is_stopped(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\naccord_timeout = 0.2\naccord_revisions = 2025-06-18\n")
    code = """
        import asyncio

        async def test_hang(connect_to):
            async with connect_to() as client:
                await asyncio.Event().wait()
    """
    assert "TimeoutError" in ran(project, code, failed=1)


def test_async_tests_without_our_fixtures_are_left_alone(project: pytest.Pytester) -> None:
    ran(project, "async def test_other():\n    pass\n", failed=1)


def test_async_tests_that_are_marked_run_without_our_fixtures(project: pytest.Pytester) -> None:
    code = """
        import pytest

        @pytest.mark.accord
        @pytest.mark.parametrize("number", [1, 2])
        async def test_other(number):
            assert number == 1
    """
    ran(project, code, passed=1, failed=1)


def test_snapshots_are_beside_the_test(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\naccord_revisions = 2025-06-18\n")
    code = """
        from accord.testing import catalog_of

        async def test_catalog(connect_to, accord_snapshot):
            async with connect_to() as client:
                accord_snapshot.check(await catalog_of(client))
                accord_snapshot.check({"tools": TOOLS}, "named")
    """
    ran(project, code.replace("TOOLS", "1"), passed=1)
    names = sorted(each.name for each in (project.path / "snapshots").iterdir())
    assert names == ["named.json", "test_catalog_memory-2025-06-18_.json"]
    ran(project, code.replace("TOOLS", "1"), passed=1)
    assert "the server shows something else" in ran(project, code.replace("TOOLS", "2"), failed=1)
    ran(project, code.replace("TOOLS", "2"), "--accord-update", passed=1)
    ran(project, code.replace("TOOLS", "2"), passed=1)


def test_runs_without_fixtures_do_not_load_the_library(project: pytest.Pytester) -> None:
    project.makeconftest("")
    code = """
        import sys

        def test_nothing():
            loaded = {name for name in sys.modules if name.partition(".")[0] == "accord"}
            assert loaded <= {
                "accord", "accord.cli", "accord.cli.commands",
                "accord.testing", "accord.testing.plugin", "accord.version",
                "accord_tools.check", "accord_tools.contract", "accord_tools.contract.plugin",
            }
            assert "msgspec" not in sys.modules
    """
    project.makepyfile(code)
    result = project.runpytest_subprocess("-p", "no:cacheprovider", timeout=6 * LONG)
    result.assert_outcomes(passed=1)


def test_the_helpers_need_no_pytest() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None; import accord.testing as t\n"
        "for name in t.__all__: getattr(t, name)\n"
        "assert dir(t) == t.__all__ == sorted(t.__all__)\n"
        "try: t.nonsense\nexcept AttributeError: pass\nelse: raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], timeout=LONG, check=True)
