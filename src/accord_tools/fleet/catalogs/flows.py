"""What tools could do together: read texts of strangers, read private data, send data out.

A model that reads a stranger's text may obey it. With all three kinds of tools, the text can make
it send private data to the stranger. The labels come from hints and names, so they are guesses.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from accord.json_schema.reader import properties_of
from accord_tools.fleet.catalogs.entries import CatalogEntry, annotations_of, tool_schema
from accord_tools.fleet.catalogs.words import word_set, words_of

FlowLabel: TypeAlias = Literal["untrusted", "private", "out"]
"""What a tool does with data: reads texts of strangers, reads private data, sends data out."""

FLOW_LABELS: Final[Mapping[FlowLabel, str]] = {
    "untrusted": "reads texts of strangers",
    "private": "reads private data",
    "out": "sends data out",
}
_WEB: Final = word_set("browse browser crawl crawler http scrape scraper url web webpage website")
_FOREIGN: Final = word_set(
    "article articles comment comments email emails feed feeds inbox issue issues mail message"
    " messages news page pages post posts review reviews rss thread threads ticket tickets tweet"
    " tweets"
)
_OWN: Final = word_set(
    "account accounts calendar contact contacts credential credentials customer customers database"
    " document documents drive email emails env file files folder folders inbox invoice invoices"
    " key keys mail memory message messages note notes order orders password passwords payment"
    " payments query record records repository secret secrets sql table tables user users vault"
)
_READS: Final = word_set(
    "browse check crawl download export fetch find get list load lookup open query read retrieve"
    " scrape search select show view"
)
_SENDS: Final = word_set(
    "broadcast comment email forward invite mail notify post publish push reply send share submit"
    " tweet upload webhook"
)
_ADDRESSES: Final = word_set("url uri link webhook endpoint")


def label_tool(entry: CatalogEntry) -> frozenset[FlowLabel]:
    """Return what a tool does with data, as far as its hints and names show."""
    hints = annotations_of(entry)
    words = set(words_of(entry.name))
    reads = bool(words & _READS) or hints.get("readOnlyHint") is True
    is_closed = hints.get("openWorldHint") is False
    takes_address = any(name.lower() in _ADDRESSES for name in properties_of(tool_schema(entry)))
    found: set[FlowLabel] = set()
    if not is_closed and (
        words & _WEB or (reads and (words & _FOREIGN or (takes_address and words & _READS)))
    ):
        found.add("untrusted")
    if reads and words & _OWN and not words & _WEB:
        found.add("private")
    is_reader = hints.get("readOnlyHint") is True
    if not is_closed and (
        (words & _SENDS and not is_reader and not words & _READS)
        or (takes_address and words & (_READS | _WEB | _SENDS))
    ):
        found.add("out")
    return frozenset(found)


def label_tools(tools: Iterable[CatalogEntry]) -> dict[FlowLabel, list[str]]:
    """Return the names of the tools that have each label."""
    found: dict[FlowLabel, list[str]] = {label: [] for label in FLOW_LABELS}
    for entry in tools:
        for label in label_tool(entry):
            found[label].append(entry.name)
    return found
