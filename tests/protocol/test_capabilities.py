"""What the members of a declared capability allow."""

import pytest

from accord.protocol.party import (
    capability_paths,
    elicitation_modes,
    undeclared_mode,
    undeclared_tools,
)


@pytest.mark.parametrize(
    ("capabilities", "modes"),
    [
        ({}, set()),
        ({"elicitation": {}}, {"form"}),
        ({"elicitation": {"form": {}}}, {"form"}),
        ({"elicitation": {"url": {}}}, {"url"}),
        ({"elicitation": {"url": {}, "form": {}}}, {"form", "url"}),
        ({"elicitation": {"voice": {}}}, {"form"}),
    ],
)
def test_an_elicitation_capability_without_a_known_mode_means_form(capabilities, modes):
    assert elicitation_modes(capability_paths(capabilities)) == modes


URL = capability_paths({"elicitation": {"url": {}}})
FORM = capability_paths({"elicitation": {}})


@pytest.mark.parametrize(
    ("params", "declared", "mode"),
    [
        ({}, URL, "form"),
        (None, URL, "form"),
        ({"mode": "form"}, URL, "form"),
        ({"mode": "url"}, FORM, "url"),
        ({"mode": "url"}, URL, None),
        ({}, FORM, None),
        ({}, None, None),
        ({}, frozenset(), None),
        ({"mode": "voice"}, FORM, None),
        ({"mode": ["url"]}, FORM, None),
    ],
)
def test_a_known_mode_that_was_not_declared_is_named(params, declared, mode):
    assert undeclared_mode(params, declared) == mode


PLAIN = capability_paths({"sampling": {}})


@pytest.mark.parametrize(
    ("params", "declared", "member"),
    [
        ({"tools": []}, PLAIN, "tools"),
        ({"toolChoice": {}}, PLAIN, "toolChoice"),
        ({}, PLAIN, None),
        ({"tools": []}, capability_paths({"sampling": {"tools": {}}}), None),
        ({"tools": []}, None, None),
        ({"tools": []}, frozenset(), None),
    ],
)
def test_the_member_that_offers_undeclared_tools_is_named(params, declared, member):
    assert undeclared_tools(params, declared) == member
