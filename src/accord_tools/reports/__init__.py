"""The formats of a report: pure functions from a report to a string.

Text of a recording or a peer is escaped: control characters, bidirectional marks and halves of
surrogate pairs are spelled out, and so is the syntax of the format itself.
"""
