"""Entries of hosts: read into one form, and written in the form of each host."""
