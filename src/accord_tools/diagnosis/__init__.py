"""Connecting to a server step by step: what each step asked, what came, and what to change."""
