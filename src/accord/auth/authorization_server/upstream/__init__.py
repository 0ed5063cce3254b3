"""Signing users in at another provider."""
