"""Compare accord with a bare msgspec loop, the official SDK and FastMCP, all in one run.

    python benchmarks/compare.py [--quick] [FIGURE ...]

A figure is one of the functions below, such as tool_calls or echo. Rates are the best of rounds
that take turns; ratios say how many times better accord is. Exits 1 when a first aim is missed.
"""

import argparse
import faulthandler
import sys
import time

import lists
import memory
import web
from measure import Effort, Figure, heading, line

import client
import stdio

MEASURES = {
    measure.__name__: measure
    for module in (stdio, memory, lists, client, web)
    for measure in module.FIGURES
}
LONGEST = 900


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare accord with its peers.")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(MEASURES))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    options = parser.parse_args()
    unknown = sorted({*options.figures} - {*MEASURES})
    if unknown:
        parser.error(f"no figure {unknown[0]!r}; there are {', '.join(MEASURES)}")
    # A contender that never answers must not hold up the others.
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    effort = Effort.of(quick=options.quick)
    started = time.perf_counter()
    found: list[Figure] = []
    print(heading())
    for name in options.figures or MEASURES:
        for figure in MEASURES[name](effort):
            found.append(figure)
            print(line(figure), flush=True)
    aims = [figure.aim for figure in found if figure.aim is not None]
    missed = [aim for aim in aims if not aim.reached]
    print(
        f"{len(aims) - len(missed)} of {len(aims)} aims reached "
        f"in {time.perf_counter() - started:.0f} s"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
