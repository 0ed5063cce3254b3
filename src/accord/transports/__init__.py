"""Thin I/O adapters; no protocol decisions."""
