"""The forms a report takes: each module has one pure function from a report to a string.

Whatever came from a recording or a peer is made harmless on the way: control characters,
bidirectional marks and halves of surrogate pairs are spelled out, and what means something in the
form itself is escaped.
"""
