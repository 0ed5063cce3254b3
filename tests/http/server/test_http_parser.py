"""An httptools whose framing has known faults is refused, wherever HTTP is started."""

import subprocess
import sys

import pytest

OUTDATED = "import httptools; httptools.__version__ = {version!r}\n"
SERVES = 'from accord import Server; Server("desk").run("http", port=0)'
CONNECTS = """
import asyncio
from accord import connect

async def main():
    async with connect("http://127.0.0.1:9/mcp"):
        pass

asyncio.run(main())
"""
STARTS_STDIO = 'from accord import Server; Server("desk").run()'


def run_with(version, code):
    return subprocess.run(
        [sys.executable, "-c", OUTDATED.format(version=version) + code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("code", [SERVES, CONNECTS], ids=["server", "client"])
@pytest.mark.parametrize("version", ["0.6.3", "0.6.0.dev1", "0.5", "0.1.13"])
def test_an_httptools_with_lax_framing_is_refused_before_anything_is_served_or_sent(version, code):
    done = run_with(version, code)
    assert done.returncode != 0
    expected = f"OutdatedPackage: HTTP needs httptools 0.6.4 or newer, but {version} is installed"
    assert expected in done.stderr


@pytest.mark.parametrize("version", ["0.6.4", "0.10.0", "1.0", "1.0.0rc1"])
def test_an_httptools_of_the_least_version_or_newer_is_accepted(version):
    done = run_with(version, "import accord.http.parser")
    assert (done.returncode, done.stderr) == (0, "")


def test_stdio_is_served_whatever_httptools_is_installed():
    done = run_with("0.1.13", STARTS_STDIO)
    assert (done.returncode, done.stderr) == (0, "")
