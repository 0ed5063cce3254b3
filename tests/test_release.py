"""The version, the changelog, the workflows and the release recipe hold together."""

import importlib.metadata
import importlib.util
from pathlib import Path

import pytest
import yaml

import accord

ROOT = Path(__file__).parents[1]
KINDS = ("breaking", "feature", "fix", "docs")
FRAGMENTS = [path for path in (ROOT / "changes").glob("*") if path.name != "README.md"]


def release_check():
    spec = importlib.util.spec_from_file_location("check", ROOT / "tools" / "release_check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_installed_version_is_the_one_in_the_source():
    assert importlib.metadata.version("accord") == accord.__version__


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_describes_one_change_of_a_known_kind(path):
    _, kind, suffix = path.name.rsplit(".", 2)
    assert (kind in KINDS, suffix) == (True, "md")
    text = path.read_text().strip()
    assert text
    assert "\n\n" not in text
    assert not text.startswith(("-", "*", "#"))


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name
)
def test_workflows_and_templates_are_valid_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


@pytest.mark.parametrize(
    ("tag", "changelog", "fragments", "reason"),
    [
        (
            "v1.2.4",
            "\n## 1.2.3 (today)",
            [],
            "the tag is v1.2.4, but src/accord/version.py says 1.2.3",
        ),
        ("v1.2.3", "\n## 1.2.2 (before)", [], "CHANGELOG.md has no 1.2.3"),
        ("v1.2.3", "\n## 1.2.3 (today)", ["a.fix.md"], "changes/ holds a.fix.md"),
    ],
)
def test_a_release_that_is_not_ready_is_refused(tmp_path, tag, changelog, fragments, reason):
    check = release_check()
    check.ROOT = tmp_path
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    (tmp_path / "changes").mkdir()
    for name in fragments:
        (tmp_path / "changes" / name).write_text("Something changed.")
    with pytest.raises(AssertionError, match=reason):
        check._check_tag(tag, "1.2.3")


def test_a_release_that_is_ready_is_accepted(tmp_path):
    check = release_check()
    check.ROOT = tmp_path
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (today)\n")
    check._check_tag("v1.2.3", "1.2.3")
