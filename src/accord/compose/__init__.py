"""Servers made of others: proxies, OpenAPI documents and folders of plugins, to be mounted."""

from accord.compose.openapi import openapi

__all__ = ["openapi"]
