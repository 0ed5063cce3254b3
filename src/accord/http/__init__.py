"""MCP over HTTP: rules, server and client."""
