"""Completion on what authors hold shows what its documentation shows."""

import re
from pathlib import Path

import pytest

from accord import Context, Server
from accord.server.session import ClientSession

PAGE = Path(__file__).parents[2] / "docs" / "servers.md"


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        (Server, r"(?<![\w./])server\.([a-z_]+)\b"),
        (Context, r"(?<![\w.])(?:ctx|Context)\.([a-z_]+)\b"),
        (ClientSession, r"(?<!\w)session\.([a-z_]+)\b"),
    ],
    ids=["Server", "Context", "ctx.session"],
)
def test_public_members_are_those_that_the_page_about_servers_names(
    kind: type, pattern: str
) -> None:
    members = {name for name in dir(kind) if not name.startswith("_")}
    assert members == set(re.findall(pattern, PAGE.read_text()))


def test_a_server_has_no_attribute_but_its_core() -> None:
    assert list(vars(Server("desk"))) == ["_core"]


@pytest.mark.parametrize("kind", [Server, Context, ClientSession])
def test_classes_that_authors_hold_have_no_mixins(kind: type) -> None:
    assert [each.__name__ for each in kind.__mro__ if each not in (kind, object)] in (
        [],
        ["Generic"],
    )
