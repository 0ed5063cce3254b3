"""Files of TOML or YAML that users write: loaded, with the line in every message."""

import re
from pathlib import Path

from accord.errors import AccordError


def parse_toml(path: Path, text: str, fault: type[AccordError]) -> object:
    """Return what a text of TOML contains.

    Args:
        path: named in messages.
        text: what the file contains.
        fault: the error to raise for a text that is not TOML.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise fault(f"{path}: is nested too deeply") from None
    except ValueError as error:
        where = re.search(r"line (\d+)", str(error))
        said = re.sub(r" \(at .*\)$", "", str(error))
        place = f":{where[1]}" if where else ""
        raise fault(f"{path}{place}: {said[:1].lower()}{said[1:]}") from None


def parse_yaml(path: Path, text: str, fault: type[AccordError]) -> object:
    """Return what a text of YAML contains, or raise `fault`, as without PyYAML."""
    try:
        import yaml
    except ImportError:
        raise fault(f"{path}: YAML needs PyYAML: pip install pyyaml; or write TOML") from None
    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise fault(f"{path}: is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark is not None else ""
        raise fault(f"{path}{place}: {getattr(error, 'problem', None) or error}") from None
