"""Servers made of others: sources of entries, views on them, and mounting."""
