"""Print the least versions that pyproject.toml allows of what accord needs, for pip.

    python tools/least_versions.py > least.txt && pip install -r least.txt

`make oldest` runs tests with them. Without its `>=` a requirement would not say what is the least.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BOUND = re.compile(r"(?P<name>[\w.-]+(?:\[[\w,-]+\])?)>=(?P<version>[\d.]+)(?P<marker>;.*)?")


def read_least_versions(pyproject: Path) -> list[str]:
    """Return each dependency, those of the extras included, with its lower bound as its version."""
    project = tomllib.loads(pyproject.read_text())["project"]
    extras = project["optional-dependencies"].values()
    found: dict[str, str] = {}
    for text in [*project["dependencies"], *(each for extra in extras for each in extra)]:
        if text.startswith("accord["):  # an extra that is made of others
            continue
        bound = _BOUND.fullmatch(text.replace(" ", ""))
        assert bound is not None, f"{text!r} is not NAME>=VERSION"
        line = f"{bound['name']}=={bound['version']}{bound['marker'] or ''}"
        known = found.setdefault(bound["name"].partition("[")[0], line)
        assert known.partition("==")[2] == line.partition("==")[2], f"{known} and {line} differ"
    return sorted(found.values())


if __name__ == "__main__":
    print(*read_least_versions(ROOT / "pyproject.toml"), sep="\n")
