"""Talking to what is under check: lines that say anything, hear everything and keep it all."""
