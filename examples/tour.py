"""A tour in seconds: judge recorded conversations, clean and faulty ones, against every clause."""

from pathlib import Path

from accord import trace
from accord.check.render import as_text
from accord.check.replay import replay

TRACES = Path(__file__).with_name("traces")


def main() -> None:
    """Judge each recording; show the last faulty one in full."""
    print("Six recorded conversations, each held to every clause that traffic can decide:\n")
    for path in sorted(TRACES.glob("*.jsonl")):
        report = replay(trace.read(path), target=path.name)
        broken = [result.id for result in report.results if result.verdict in ("fail", "warn")]
        applicable, exercised = report.coverage.applicable, report.coverage.exercised
        print(
            f"  {path.name:26} revision {report.revision}  score {report.score:5}"
            f"  tested {exercised} of {applicable}  broken {len(broken)}"
        )
    print("\nThe last faulty one in detail:\n")
    report = replay(
        trace.read(TRACES / "2025-06-18-faulty.jsonl"), target="2025-06-18-faulty.jsonl"
    )
    print(as_text(report, width=100))
    print(
        "\nTry next:\n"
        "  .venv/bin/accord check trace examples/traces/2024-11-05-faulty.jsonl --format markdown\n"
        "  .venv/bin/accord requirements --revision 2025-06-18 --level must --area tools\n"
        "  .venv/bin/accord requirements progress.value.increases"
    )


if __name__ == "__main__":
    main()
