"""Servers that were found or imported: their names made unique, their secrets replaced."""

import re
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from accord_tools.hosts.entries.literals import find_literals, replace_literal, variable_name
from accord_tools.hosts.sources.found_server import FoundServer, map_texts, plain_name

# A safeguard: each literal is replaced, so that there are fewer each time.
_MOST_LITERALS: Final = 200


def make_unique(found: Iterable[FoundServer], taken: Collection[str] = ()) -> list[FoundServer]:
    """Return servers with names of their own: the second of a name gets `-2`."""
    names = set(taken)
    unique = []
    for each in found:
        name, number = each.name, 1
        while name in names:
            number += 1
            name = f"{each.name}-{number}"
        names.add(name)
        unique.append(each if name == each.name else rename_server(each, name))
    return unique


def rename_server(found: FoundServer, name: str) -> FoundServer:
    """Return a server of another name, and so are the files that are named after it."""

    def rename(text: str) -> str:
        # A name may be anything, the name of a file may not.
        file = plain_name(name)
        pattern = rf"\b(cases|locks)/{re.escape(found.name)}\."
        return re.sub(pattern, lambda place: f"{place[1]}/{file}.", text)

    return msgspec.structs.replace(
        found,
        name=name,
        settings=map_texts(found.settings, rename),
        remarks=tuple(map(rename, found.remarks)),
        files={rename(path): text for path, text in found.files.items()},
    )


def hide_literals(found: Iterable[FoundServer]) -> list[FoundServer]:
    """Replace secrets in entries by placeholders, and note the variables to set.

    Servers that have the same secret share its variable; different secrets get different ones.
    """
    values: dict[str, str] = {}
    hidden = []
    for each in found:
        entry = dict(each.entry)
        variables: list[str] = []
        for _ in range(_MOST_LITERALS):
            literal = next(find_literals(each.name, entry), None)
            if literal is None:
                break
            variable = literal.variable
            if values.get(variable, literal.value) != literal.value:
                variable = variable_name(each.name, variable)
            while values.get(variable, literal.value) != literal.value:
                variable += "_"
            values[variable] = literal.value
            variables.append(variable)
            entry = replace_literal(entry, literal.rename(variable))
        hidden.append(
            msgspec.structs.replace(
                each, entry=entry, variables=tuple(dict.fromkeys((*each.variables, *variables)))
            )
        )
    return hidden
