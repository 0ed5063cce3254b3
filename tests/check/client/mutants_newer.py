"""Clients of 2025-11-25 with one fault each."""
