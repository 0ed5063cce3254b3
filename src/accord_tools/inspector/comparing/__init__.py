"""Differences between results, and between the revisions of one server."""
