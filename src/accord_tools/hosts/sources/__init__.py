"""Servers that are described elsewhere: by the registry, or in files of hosts."""
