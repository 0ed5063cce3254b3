"""Metrics as text: the format of Prometheus, version 0.0.4, and OpenMetrics 1.0.

They differ in the name of a counter, which has its suffix only in its values in OpenMetrics, and in
the last line.
"""

from collections.abc import Iterable
from typing import Final

from accord.http.server.metrics import CountReport, MetricFamily

__all__ = ["OPENMETRICS", "PROMETHEUS", "encode_families", "is_openmetrics_wanted", "join_reports"]

PROMETHEUS: Final = b"text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = b"application/openmetrics-text; version=1.0.0; charset=utf-8"
_PREFIX: Final = "accord_"


def is_openmetrics_wanted(accept: bytes | None) -> bool:
    """Whether a reader prefers OpenMetrics, as its Accept header says.

    >>> is_openmetrics_wanted(b"application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    True
    >>> is_openmetrics_wanted(b"*/*")
    False
    """
    openmetrics = text = 0.0
    for part in (accept or b"").decode("latin-1").lower().split(","):
        kind, *parameters = (each.strip() for each in part.split(";"))
        quality = 1.0
        for each in parameters:
            name, _, value = each.partition("=")
            if name.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        if kind == "application/openmetrics-text":
            openmetrics = max(openmetrics, quality)
        elif kind == "text/plain":
            text = max(text, quality)
    return openmetrics > 0 and openmetrics >= text


def join_reports(reports: Iterable[CountReport]) -> list[MetricFamily]:
    """Return the counts of several workers, each with the label of its worker.

    If workers of two versions disagree about the kind of a metric, the first one is right.
    """
    found: dict[str, MetricFamily] = {}
    for report in reports:
        for family in report.families:
            joined = found.get(family.name)
            if joined is None:
                joined = found[family.name] = MetricFamily(
                    family.name, family.kind, family.what, []
                )
            if joined.kind == family.kind:
                joined.samples.extend(
                    ({**labels, "worker": report.worker}, value) for labels, value in family.samples
                )
    return list(found.values())


def encode_families(families: Iterable[MetricFamily], *, is_openmetrics: bool) -> bytes:
    """Return metrics as text."""
    lines: list[str] = []
    for family in families:
        name = sample = f"{_PREFIX}{family.name}"
        if family.kind == "counter":
            sample = f"{name}_total"
            name = name if is_openmetrics else sample
        lines.append(f"# HELP {name} {_escape(family.what, is_quoted=is_openmetrics)}\n")
        lines.append(f"# TYPE {name} {family.kind}\n")
        lines += [f"{sample}{_encode_labels(each[0])} {each[1]}\n" for each in family.samples]
    if is_openmetrics:
        lines.append("# EOF\n")
    return "".join(lines).encode()


def _encode_labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escape(value, is_quoted=True)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _escape(text: str, *, is_quoted: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if is_quoted else text
