"""Servers made of others: proxies, OpenAPI documents and folders of plugins, to be mounted."""
