"""The invariants of many workers, checked from the ledger and from what clients saw.

I1  each request has exactly one response, or was refused before its first event;
I2  no event twice, no gap, order kept;
I3  a tool ran at most once; an idempotent one that has a result ran to its end;
I4  every answer to a question reached its own call;
I5  nothing of one session is seen by another;
I6  when all sessions have ended and retention has passed, nothing is left;
I7  the traffic keeps the rules of its revision.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from support.scale.calls import Call
from support.scale.history import RUN_AGAIN, explain_call, explain_listener
from support.scale.ledger import Step
from support.scale.processes import ServerProcesses
from support.scale.raw_client import RawClient
from support.scale.recordings import find_mark

NAMES = re.compile(r"[\w.-]*[0-9][\w./-]*")
SHOWN = 6
"""How many kinds of problems are printed with an example."""


class Problem:
    """One thing that must not be."""

    def __init__(self, rule: str, text: str, excerpt: str = "") -> None:
        self.rule = rule
        self.text = text
        self.excerpt = excerpt

    @property
    def kind(self) -> str:
        """What problems of one kind have in common: the text without names and numbers."""
        return f"{self.rule} {NAMES.sub('#', self.text)}"

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def audit(
    processes: ServerProcesses,
    clients: Iterable[RawClient],
    *,
    has_faults: bool = False,
    seed: object = None,
) -> None:
    """Check I1 to I5 and I7 for sessions.

    Args:
        processes: the workers, with their ledger.
        clients: those of the scenario.
        has_faults: whether workers or the store were disturbed, so that requests may be refused and
            workers may be lost.
        seed: for the message.

    Raises:
        AssertionError: says what is wrong, with the events and the steps around it.
    """
    by_key = processes.ledger.by_key()
    problems: list[Problem] = []
    for client in clients:
        problems += check_client(client, by_key, has_faults=has_faults)
    report(problems, processes, seed)


def report(problems: Sequence[Problem], processes: ServerProcesses, seed: object = None) -> None:
    """Fail if there are problems, with what is needed to understand them."""
    if not problems:
        return
    lines = [f"{len(problems)} problems, seed {seed}"]
    alike: dict[str, list[Problem]] = {}
    for each in problems:
        alike.setdefault(each.kind, []).append(each)
    lines += [f"  {len(them)} x {them[0]}" for them in alike.values()]
    for them in list(alike.values())[:SHOWN]:
        lines += ["", f"=== {them[0]}", them[0].excerpt]
    lines += ["", processes.complaints()]
    raise AssertionError("\n".join(lines))


def check_client(
    client: RawClient, by_key: dict[str, list[Step]], *, has_faults: bool
) -> list[Problem]:
    """Check what one client saw."""
    problems: list[Problem] = []
    for call in client.calls:
        steps = by_key.get(call.key, [])
        found = [
            *_check_response(call, has_faults),
            *(Problem("I2", why) for why in explain_call(call, steps)),
            *_check_runs(call, steps),
            *_check_answers(call, steps, client.name),
        ]
        for each in found:
            each.text = f"{client.name} {call.tool} {call.key}: {each.text}"
            answers = _show_answers(client, call)
            each.excerpt = f"{call.excerpt()}{answers}\n-- ledger\n{_show(steps)}"
        problems += found
    problems += _check_sessions(client)
    for listener in client.listeners:
        for why in explain_listener(listener.view.seen, f"{client.name}/"):
            problems.append(Problem("I5", f"{client.name} listens: {why}", listener.view.excerpt()))
    broken = zip(client.recorder.report(), client.recorder.excerpts(), strict=True)
    problems += [Problem("I7", f"{client.name}: {each}", excerpt) for each, excerpt in broken]
    return problems


def _show_answers(client: RawClient, call: Call) -> str:
    """Return how the questions of a call were answered."""
    lines = []
    for each in client.answers:
        mark = find_mark(each.question)
        if mark is not None and mark.key == call.key:
            posts = [a for a in client.attempts if a.what == f"answer {each.question['id']}"]
            lines += [f"\n{post}" for post in posts]
    return "".join(lines)


def _show(steps: Sequence[Step]) -> str:
    lines = [f"{s.at:.3f} pid {s.pid} run {s.run} {s.what} {s.value!r:.80}" for s in steps]
    return "\n".join(lines[-30:]) or "(nothing)"


def _check_response(call: Call, has_faults: bool) -> list[Problem]:
    if call.outcome == "answered":
        return [] if has_faults or call.reason is None else [Problem("I1", f"ends {call.reason}")]
    if call.outcome == "cancelled" and call.was_cancelled:
        return [Problem("I1", "has a response although cancelled")] if call.responses else []
    if call.outcome == "refused" and call.status == 404:
        return [Problem("I1", "was refused with 404, in a session that exists")]
    if call.outcome in ("refused", "unknown") and has_faults and not call.view.seen:
        return []
    return [Problem("I1", f"is {call.outcome} with status {call.status}")]


def _check_runs(call: Call, steps: Sequence[Step]) -> list[Problem]:
    if call.tool not in RUN_AGAIN or call.response is None or "result" not in call.response:
        return []
    ended = any(step.what == "end" for step in steps)
    return [] if ended else [Problem("I3", "has a result, and no run of it has ended")]


def _check_answers(call: Call, steps: Sequence[Step], name: str) -> list[Problem]:
    """What handlers got is what this client answered to their own question."""
    kind = call.arguments.get("kind", "elicit")
    problems = []
    asked: dict[str, Any] = {}
    for step in steps:
        if step.what == "ask":
            asked[step.run] = step.value
        if step.what == "answer":
            wanted = f"{call.key}|{step.run}|{asked.get(step.run)}@{name}"
            if kind == "roots":
                wanted = f"file:///{name}"
            if step.value != wanted:
                problems.append(Problem("I4", f"got the answer {step.value!r}, not {wanted!r}"))
    if call.tool == "ask" and call.outcome == "answered" and "result" in call.response:
        got = [step.value for step in steps if step.what == "answer"]
        if json.loads(call.text) != got:
            problems.append(Problem("I4", f"result {call.text} differs from the answers {got}"))
    return problems


def _check_sessions(client: RawClient) -> list[Problem]:
    """A session that was not ended is known to every worker."""
    if client.is_deleted:
        return []
    wrong = [each for each in client.attempts if each.status == 404]
    return [Problem("404", f"{client.name}: {each}") for each in wrong]
