"""The version, the changelog, the workflows and the release recipe hold together."""

import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest
import yaml

import accord
from support.tables import cases

ROOT = Path(__file__).parents[1]
KINDS = ("breaking", "feature", "fix", "docs")
FRAGMENTS = [path for path in (ROOT / "changes").glob("*") if path.name != "README.md"]


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def release_check():
    return load_tool("release_check")


def test_the_installed_version_is_the_one_in_the_source():
    assert importlib.metadata.version("accord") == accord.__version__


@cases("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_describes_one_change_of_a_known_kind(path):
    _, kind, suffix = path.name.rsplit(".", 2)
    assert (kind in KINDS, suffix) == (True, "md")
    text = path.read_text().strip()
    assert text
    assert "\n\n" not in text
    assert not text.startswith(("-", "*", "#"))
    links = re.findall(r"\]\(([^)#\s]+)", text)  # from the page in docs/ that a release makes of it
    assert [
        link for link in links if "://" not in link and not (ROOT / "docs" / link).exists()
    ] == []


@cases("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_workflows_and_templates_are_valid_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / "action.yml"]


@cases("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_is_pinned_by_the_hash_of_a_commit_whose_version_is_named(path):
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert uses
    pinned = re.compile(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [each for each in uses if pinned.fullmatch(each) is None] == []


def test_an_action_has_one_hash_everywhere():
    uses = re.findall(r"uses: (.*)@(.*)", "\n".join(path.read_text() for path in WORKFLOWS))
    assert len(dict(uses)) == len(set(uses))


def test_the_least_version_of_every_dependency_is_tested():
    least = load_tool("least_versions").read_least_versions(ROOT / "pyproject.toml")
    names = [re.split(r"==|\[", each)[0] for each in least]
    required = importlib.metadata.requires("accord")
    expected = {re.split(r"[^\w-]", each)[0] for each in required} - {"accord"}
    assert names == sorted(expected)


@pytest.mark.parametrize("text", ["msgspec", "msgspec<1", "msgspec>=0.21,<1", "msgspec==0.21"])
def test_a_dependency_without_a_lower_bound_alone_is_refused(tmp_path, text):
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text(f'[project]\ndependencies = ["{text}"]\n[project.optional-dependencies]\n')
    with pytest.raises(AssertionError, match="is not NAME>=VERSION"):
        load_tool("least_versions").read_least_versions(pyproject)


def test_extras_that_name_different_bounds_of_one_package_are_refused(tmp_path):
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text(
        '[project]\ndependencies = ["a>=1"]\n[project.optional-dependencies]\nx = ["a[b]>=2"]\n'
    )
    with pytest.raises(AssertionError, match="differ"):
        load_tool("least_versions").read_least_versions(pyproject)


LINK = "[Every change](docs/changes-1.2.3.md)"
SECTION = f"\n## 1.2.3 (today)\n\n{LINK}\n"


def write_release(root, *, changelog=SECTION, fragments=(), has_archive=True):
    (root / "CHANGELOG.md").write_text(f"# Changelog\n{changelog}")
    for folder in ("changes", "docs"):
        (root / folder).mkdir()
    (root / "changes" / "README.md").write_text("How to write a fragment.")
    for name in fragments:
        (root / "changes" / name).write_text("Something changed.")
    if has_archive:
        (root / "docs" / "changes-1.2.3.md").write_text("# Changes in 1.2.3\n")


@pytest.mark.parametrize(
    ("tag", "release", "reason"),
    [
        ("v1.2.4", {}, "the tag is v1.2.4, but src/accord/version.py says 1.2.3"),
        ("v1.2.3", {"changelog": "\n## 1.2.2 (before)\n"}, "CHANGELOG.md has no 1.2.3"),
        ("v1.2.3", {"fragments": ["a.fix.md"]}, "changes/ holds a.fix.md"),
        ("v1.2.3", {"has_archive": False}, "docs/changes-1.2.3.md is missing"),
        (
            "v1.2.3",
            {"changelog": f"\n## 1.2.3 (today)\n\n## 1.2.2 (before)\n\n{LINK}\n"},
            "CHANGELOG.md has no link to docs/changes-1.2.3.md",
        ),
        (
            "v1.2.3",
            {"changelog": SECTION + "- a change\n" * 58},
            "CHANGELOG.md has 61 lines about 1.2.3",
        ),
    ],
)
def test_a_release_that_is_not_ready_is_refused(tmp_path, tag, release, reason):
    check = release_check()
    check.ROOT = tmp_path
    write_release(tmp_path, **release)
    with pytest.raises(AssertionError, match=re.escape(reason)):
        check._check_tag(tag, "1.2.3")


def test_a_release_that_is_ready_is_accepted(tmp_path):
    check = release_check()
    check.ROOT = tmp_path
    # What an earlier release said does not count.
    earlier = "\n## 1.2.2 (before)\n" + "- a change\n" * 100
    write_release(tmp_path, changelog=SECTION + "- a change\n" * 57 + earlier)
    check._check_tag("v1.2.3", "1.2.3")
