"""Talking to what is under check: raw connections that send anything and keep all messages."""
