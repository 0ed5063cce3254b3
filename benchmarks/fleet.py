"""A fleet of 30 small servers: side by side against one after another, and again from the cache.

All settings are the defaults: every revision, contract tests, as many workers as the machine takes.
One after another takes long, so that eight of them have to do; the ratio is that of the seconds for
each server. Verdicts must be the same both ways. Wall time on an idle machine counts, so that the
share of the cores that other programs had is printed. `--quick` checks eight servers both ways.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVERS, SOME = 30, 8
CORES = len(os.sched_getaffinity(0))
SOME_OPTIONS = [word for number in range(SOME) for word in ("--server", f"small-{number}")]
MOST_SECONDS = 180.0
# How many times faster a server is beside others, on two cores.
LEAST_RATIO = 2.0
# Starting, listing and comparing a server that has not changed.
MOST_AGAIN = 20.0
MOST_MEMORY_MB = 150.0
MOST_PAGE_MB = 2.0
MOST_HELP_MS = 300.0
HELPS = 9
TESTS = Path(__file__).parents[1] / "tests"
SERVER = '''\
from accord import Server

server = Server("small-{number}")


@server.tool(annotations={{"readOnlyHint": True}})
def add_{number}(a: int, b: int) -> int:
    """Add two whole numbers and return their sum."""
    return a + b


@server.tool(annotations={{"readOnlyHint": True}})
def repeat_{number}(text: str, times: int = 2) -> str:
    """Return a text several times, with spaces between."""
    return " ".join([text] * max(0, min(times, 10)))


server.run()
'''


@dataclass
class FleetTime:
    """What a run took, and its JSON."""

    seconds: float
    cpu: float
    others: float  # the share of the cores that other programs had
    memory: float
    run: dict[str, Any]

    @property
    def each(self) -> float:
        """The seconds for each server."""
        return self.seconds / len(self.run["results"])

    @property
    def verdicts(self) -> dict[str, dict[str, str]]:
        return {each["name"]: each["verdicts"] for each in self.run["results"]}


def write_fleet(folder: Path) -> Path:
    """Write the servers and the file that names them."""
    lines = ['[fleet]\nname = "small servers"\n']
    for number in range(SERVERS):
        script = folder / f"small_{number}.py"
        script.write_text(SERVER.format(number=number))
        command = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(script.name)}]\n"
        lines.append(f"[mcpServers.small-{number}]\n{command}")
    file = folder / "accord-fleet.toml"
    file.write_text("\n".join(lines))
    return file


def check(file: Path, *options: str) -> FleetTime:
    """Run `accord fleet`, and read the clocks."""
    output = file.parent / "run.json"
    command = [sys.executable, "-m", "accord", "fleet", str(file), "--yes", "--quiet"]
    # Some machines forbid the caching of compiled modules, and each process would compile.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    began, busy = time.perf_counter(), busy_seconds()
    process = subprocess.Popen(
        [*command, "--output", str(output), *options],
        stdout=subprocess.DEVNULL,
        env={**env, "ACCORD_FLEET_KEY": "benchmark"},
    )
    memory = [0.0]
    watcher = threading.Thread(target=_watch_memory, args=(process.pid, memory), daemon=True)
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    seconds, busy = time.perf_counter() - began, busy_seconds() - busy
    process.returncode = os.waitstatus_to_exitcode(status)
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"accord fleet ended with {process.returncode}")
    run = json.loads(output.read_text())["run"]
    cpu = usage.ru_utime + usage.ru_stime
    others = max(0.0, busy - cpu) / (seconds * CORES)
    return FleetTime(seconds, cpu, others, memory[0], run)


def busy_seconds() -> float:
    """Return how long all cores of the machine together were busy since it started."""
    user, nice, system, _idle, _waiting, *rest = map(int, _stat_line().split()[1:])
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")


def _stat_line() -> str:
    with Path("/proc/stat").open() as file:
        return file.readline()


def _watch_memory(pid: int, peak: list[float]) -> None:
    """Read the most memory that a process had, until it has ended."""
    while True:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        if not found:
            return
        peak[0] = int(found[0]) / 1024
        time.sleep(0.2)


def differences(one: FleetTime, other: FleetTime) -> Iterator[str]:
    """Yield the verdicts that two runs do not share."""
    for name, verdicts in one.verdicts.items():
        others = other.verdicts.get(name, verdicts)
        for id in sorted({*verdicts, *others}):
            if verdicts.get(id) != others.get(id):
                yield f"{name}: {id}: {verdicts.get(id)} and {others.get(id)}"


def page_megabytes() -> float:
    """Return the size of the page of 100 servers, a third in bad shape, after 50 runs."""
    from accord_tools.fleet.rendering import render_fleet

    sys.path.append(str(TESTS))
    place = importlib.util.spec_from_file_location("views", TESTS / "fleet" / "views.py")
    assert place is not None
    assert place.loader is not None
    views = importlib.util.module_from_spec(place)
    place.loader.exec_module(views)
    return len(render_fleet(views.large_view(100, 50), "html").encode()) / 1e6


def help_milliseconds() -> float:
    """Return the CPU time until the help is printed, of the best of some runs."""
    best = float("inf")
    for _ in range(HELPS):
        with subprocess.Popen(
            [sys.executable, "-m", "accord", "fleet", "--help"], stdout=subprocess.DEVNULL
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        best = min(best, usage.ru_utime + usage.ru_stime)
    return best * 1e3


def tell(name: str, value: float, limit: float, unit: str, *, at_most: bool = True) -> bool:
    """Print a figure against its limit; return whether it is kept."""
    is_met = value <= limit if at_most else value >= limit
    bound = "of" if at_most else "of at least"
    said = "met" if is_met else "MISSED"
    print(f"  {name:42} {value:8.2f} {unit} {bound} {limit:g}: {said}")
    return is_met


def describe(run: FleetTime) -> str:
    """Return what a run cost, for people."""
    each = run.cpu / len(run.run["results"])
    return f"{each:.1f} CPU seconds each, others had {run.others:.0%} of the cores"


def compare(file: Path, together: FleetTime) -> bool:
    """Check some servers one after another, and compare with a run side by side."""
    apart = check(file, "--no-history", "--jobs", "1", *SOME_OPTIONS)
    print(f"  {f'{SOME} servers, one after another':42} {apart.seconds:8.2f} s")
    print(f"    {describe(apart)}")
    ratio = apart.each / together.each
    is_met = tell("how many times faster", ratio, LEAST_RATIO, "times", at_most=False)
    return _same(apart, together) and is_met


def _same(one: FleetTime, other: FleetTime) -> bool:
    found = list(differences(one, other))
    count = sum(len(each) for each in one.verdicts.values())
    print(
        f"  {'verdicts that differ':42} {len(found):8} of {count}: {'MISSED' if found else 'met'}"
    )
    for each in found:
        print(f"    {each}")
    return not found


def check_again(file: Path, first: FleetTime) -> bool:
    """Check the whole fleet again, when all results are reused."""
    again = check(file)
    reused = sum(bool(each["reused_from"]) for each in again.run["results"])
    is_met = tell(f"again, {reused} reused", again.seconds, MOST_AGAIN, "s")
    return reused == SERVERS and _same(first, again) and is_met


def main() -> int:
    print(f"a fleet of small servers, {CORES} cores")
    is_quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        file = write_fleet(Path(folder))
        whole = check(file, *(SOME_OPTIONS if is_quick else ()))
        name = f"{len(whole.run['results'])} servers, {whole.run['jobs']} at once"
        is_met = tell(name, whole.seconds, MOST_SECONDS, "s")
        print(f"    {describe(whole)}")
        is_met &= tell("memory of the run itself", whole.memory, MOST_MEMORY_MB, "MB")
        is_met &= is_quick or check_again(file, whole)
        is_met &= compare(file, whole)
    is_met &= tell("page of 100 servers and 50 runs", page_megabytes(), MOST_PAGE_MB, "MB")
    is_met &= tell("accord fleet --help, CPU", help_milliseconds(), MOST_HELP_MS, "ms")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
