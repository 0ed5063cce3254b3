"""The log of an inspected server: each message, with the clauses that it keeps or breaks."""
