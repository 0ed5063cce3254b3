"""Faults of entries that can be mended without a guess, each as a change of one file."""
