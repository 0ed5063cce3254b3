"""A model of streams: decides whether what a client saw can be explained by what tools sent.

The model of one call is a log. Each run of its handler appends the numbers 1, 2, 3 and so on; a run
ends with its worker, and then another may follow, if the tool is declared idempotent. A result
closes the log, and so does the error that a worker was lost. What a client sees, over all its
connections, must be this log from its beginning: without a gap, without anything twice, and nothing
of another call.
"""

from collections.abc import Sequence
from itertools import groupby

from support.scale.calls import Call
from support.scale.ledger import Mark, Step, parse_mark
from support.scale.recordings import SeenEvent

RUN_AGAIN = frozenset({"repeatable"})
"""The tools that are declared idempotent."""


def explain_call(call: Call, steps: Sequence[Step]) -> list[str]:
    """Return why there is no explanation for what a client saw of a call; empty if there is.

    Args:
        call: with what the client saw.
        steps: those of the ledger with its key.
    """
    blocks = [(run, list(marks)) for run, marks in groupby(call.view.marks, lambda m: m.run)]
    return [
        *_check_ids(call.view.seen),
        *_check_blocks(call, blocks),
        *_check_sent(call, steps),
        *_check_runs(call, blocks, steps),
        *_check_end(call, blocks, steps),
    ]


def _check_ids(seen: Sequence[SeenEvent]) -> list[str]:
    """Every event has an id of its own."""
    ids = [event.id for event in seen if event.id is not None]
    return [f"event id {id} came {ids.count(id)} times" for id in set(ids) if ids.count(id) > 1]


def _check_blocks(call: Call, blocks: Sequence[tuple[str, list[Mark]]]) -> list[str]:
    """Runs follow each other, each from its first number, without a gap."""
    problems = []
    names = [run for run, _ in blocks]
    if len(set(names)) < len(names):
        problems.append(f"events of two runs are mixed: {names}")
    for run, marks in blocks:
        numbers = [mark.number for mark in marks]
        if numbers != list(range(1, len(numbers) + 1)):
            problems.append(f"run {run} came as {numbers}: a gap, or something twice")
        problems += [f"{mark} is of another call" for mark in marks if mark.key != call.key]
    return problems


def _check_sent(call: Call, steps: Sequence[Step]) -> list[str]:
    """What came was sent before."""
    sent = {(step.run, step.value): step.at for step in steps if step.what in ("send", "ask")}
    problems = []
    for event in call.view.seen:
        mark = event.mark
        if mark is None or mark.key != call.key:
            continue
        at = sent.get((mark.run, mark.number))
        if at is None or at > event.at:
            problems.append(f"{mark} came and was not sent before")
    return problems


def _check_runs(
    call: Call, blocks: Sequence[tuple[str, list[Mark]]], steps: Sequence[Step]
) -> list[str]:
    """Runs came in the order in which they began; there is one, unless the tool may run again."""
    began = [step.run for step in steps if step.what == "begin"]
    order = [began.index(run) for run, _ in blocks if run in began]
    problems = []
    if order != sorted(order):
        problems.append(f"runs came in the order {[run for run, _ in blocks]}, began as {began}")
    if len(began) > 1 and call.tool not in RUN_AGAIN:
        problems.append(f"{call.tool} ran {len(began)} times: {began}")
    return problems


def _check_end(
    call: Call, blocks: Sequence[tuple[str, list[Mark]]], steps: Sequence[Step]
) -> list[str]:
    """One response; a result is that of the last run, of which everything came."""
    if call.outcome != "answered":
        return []
    if len(call.responses) != 1:
        return [f"{len(call.responses)} responses"]
    if call.response.get("id") != call.id:
        return [f"the response has the id {call.response.get('id')!r}, expected {call.id!r}"]
    if "result" not in call.response or call.tool not in ("stream", *RUN_AGAIN):
        return []
    mark = parse_mark(call.text)
    if mark is None:
        return [f"the result is {call.text!r}"]
    run, total = mark.run, mark.number
    if not any(step.run == run and step.what == "end" for step in steps):
        return [f"the result is that of run {run}, which did not end"]
    last = blocks[-1] if blocks else (run, [])
    if last[0] != run or len(last[1]) != total:
        return [f"the result follows {len(last[1])} events of run {last[0]}; {run} sent {total}"]
    return []


def explain_listener(seen: Sequence[SeenEvent], own: str) -> list[str]:
    """Return what is wrong with the standing stream of a client.

    Args:
        seen: its events.
        own: how the keys of this client begin.
    """
    problems = _check_ids(seen)
    marks = [event.mark for event in seen if event.mark is not None]
    problems += [f"{mark} is of another session" for mark in marks if not mark.key.startswith(own)]
    problems += [f"{event} is a response" for event in seen if event.is_response]
    return problems
