"""The table of mutants: requirement, mutant, and the requirements that a check finds broken.

    python tools/mutants.py [AREA ...]

Every server and client of the tests with one fault is checked, also those that `make test` leaves
to `make thorough`. A line is printed for each, separated by tabs: party, requirement, mutant,
`found`, `misnamed` or `missed`, and what was found. The last lines are the sums.
"""

import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from check.client.registering import MUTANTS as CLIENTS
from check.client.test_client_mutants import found_of
from check.mutants.foundation import all_mutants


def table(areas: list[str]) -> Iterator[tuple[str, str, str, set[str]]]:
    """Check every mutant of these areas, of all without any."""
    for name, server in sorted(all_mutants().items()):
        if not areas or server.id.partition(".")[0] in areas:
            yield "server", server.id, name, set(server.check())
    for name, client in sorted(CLIENTS.items()):
        if not areas or client.id.partition(".")[0] in areas:
            yield "client", client.id, name, set(found_of(client))


def main() -> int:
    logging.disable(logging.CRITICAL)
    sums: Counter[tuple[str, str]] = Counter()
    for party, id, name, found in table(sys.argv[1:]):
        outcome = "found" if id in found else "misnamed" if found else "missed"
        sums[party, outcome] += 1
        print(party, id, name, outcome, " ".join(sorted(found)), sep="\t", flush=True)
    for party in ("server", "client"):
        counts = {outcome: sums[party, outcome] for outcome in ("found", "misnamed", "missed")}
        print(
            f"{party}s: " + ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
        )
    return 0 if all(outcome == "found" for _, outcome in sums) else 1


if __name__ == "__main__":
    sys.exit(main())
