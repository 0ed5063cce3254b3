"""Bundles (.mcpb): a server with its files and manifest in one archive."""
