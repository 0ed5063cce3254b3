"""Entries launched the way their host launches them, and faults found before that."""
