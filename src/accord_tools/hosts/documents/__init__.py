"""Texts of JSON, TOML and YAML: where things are in them, and edits of one span."""
