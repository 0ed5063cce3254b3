"""Results of cases kept beside their file: `desk.accord.toml` has `desk.accord.snapshots.json`."""

import json
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

from accord.errors import AccordError
from accord_tools.contract.result_paths import Path as ResultPath
from accord_tools.contract.result_paths import remove_at

_UPDATE: Final = "--update-snapshots writes it"


def snapshot_file(cases: Path) -> Path:
    """Return the file with the results of the cases in a file."""
    return cases.with_suffix(".snapshots.json")


def find_difference(
    origin: tuple[Path, str], step: int, result: Any, without: list[ResultPath], *, update: bool
) -> tuple[str, str] | None:
    """Return what was expected and what came; None if the result is the one that was kept.

    Args:
        origin: the file of the case, and the name of the case.
        step: the number of the request in the case.
        result: the result, as JSON.
        without: paths of what may differ.
        update: keep this result in place of the earlier one.

    Raises:
        AccordError: the file with the results cannot be read or written.
    """
    path, case = snapshot_file(origin[0]), origin[1]
    found = remove_at(result, without)
    kept = _read(path)
    name = str(step)
    if update:
        kept.setdefault(case, {})[name] = found
        _write(path, kept)
        return None
    if name not in kept.get(case, {}):
        return f"a result in {path.name}; {_UPDATE}", "no earlier result"
    # What is left out now may have been kept before.
    expected = remove_at(kept[case][name], without)
    if expected == found:
        return None
    changed = unified_diff(_lines(expected), _lines(found), lineterm="", n=0)
    lines = [" ".join(each.split()) for each in [*changed][2:] if not each.startswith("@@")]
    return f"the result in {path.name}; {_UPDATE}", "  ".join(lines)


def _lines(value: object) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).splitlines()


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise AccordError(f"{path}: cannot be read: {error}") from None
    is_right = isinstance(found, dict) and all(isinstance(each, dict) for each in found.values())
    if not is_right:
        raise AccordError(f"{path}: is not a file of snapshots; remove it, and write it again")
    return dict(found)


def _write(path: Path, kept: dict[str, dict[str, Any]]) -> None:
    text = json.dumps(kept, indent=2, sort_keys=True, ensure_ascii=False)
    try:
        path.write_text(f"{text}\n", "utf-8")
    except OSError as error:
        raise AccordError(f"{path}: cannot be written: {error.strerror}") from None
