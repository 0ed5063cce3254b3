"""What grows with the number of tools, and what must not."""

import json
from collections.abc import Callable

from measure import (
    CONTENDERS,
    Aim,
    Effort,
    Figure,
    Reading,
    Served,
    best,
    calls,
    cpu_line,
    one_core,
    request,
    served,
    timed,
)

MANY, FEW = 1_000, 10
CALLS = 5_000


def listing(effort: Effort) -> list[Figure]:
    """List 1,000 tools, page by page where there are pages; then call one of them."""
    with served(tools=MANY) as running:
        rounds = {who: timed(server, _walk(who, server)) for who, server in running.items()}
        lists = best(rounds, effort, most=300)
        with served(tools=FEW) as smaller:
            few, many = _calls(smaller, running, effort)
    times = lists["official"].cpu / lists["accord"].cpu
    growth = {who: many[who].cpu / few[who].cpu for who in CONTENDERS}
    return [
        cpu_line(
            "tools/list with 1,000 tools, CPU µs",
            lists,
            Aim(times, 100, 900, "times less than the official SDK"),
        ),
        Figure("  listings per s", {who: each.rate for who, each in lists.items()}),
        Figure(
            "tools/call, 1,000 tools against 10, CPU",
            growth,
            digits=3,
            more_is_better=False,
            aim=Aim(growth["accord"], 1.1, 1.02, "of the CPU with 10 tools", at_most=True),
        ),
    ]


def _walk(who: str, server: Served) -> Callable[[int], int]:
    """Find out which requests list everything, once; then send just these."""
    prepared, count, cursor = [], 0, None
    while True:
        params = {} if cursor is None else {"cursor": cursor}
        prepared.append(request(len(prepared) + 1, "tools/list", params))
        page = server.ask(prepared[-1])
        count += len(page["tools"])
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    if count < MANY:
        raise RuntimeError(f"{who} lists {count} tools: {json.dumps(page)[:200]}")

    def work(count: int) -> int:
        for _ in range(count):
            server.one_by_one(prepared)
        return count

    return work


def _calls(
    few: dict[str, Served], many: dict[str, Served], effort: Effort
) -> tuple[dict[str, Reading], dict[str, Reading]]:
    prepared = calls("add", {"a": 1, "b": 2}, CALLS)

    def calling(server: Served) -> Callable[[int], int]:
        def work(count: int) -> int:
            server.one_by_one(prepared[:count])
            return count

        return work

    rounds = {}
    for who in CONTENDERS:
        rounds[f"{who} few"] = timed(few[who], calling(few[who]))
        rounds[f"{who} many"] = timed(many[who], calling(many[who]))
    # Where the kernel places the processes would matter more than the number of tools.
    with one_core(*(each.pid for each in (*few.values(), *many.values()))):
        found = best(rounds, effort, most=CALLS)
    return (
        {who: found[f"{who} few"] for who in CONTENDERS},
        {who: found[f"{who} many"] for who in CONTENDERS},
    )


FIGURES = (listing,)
