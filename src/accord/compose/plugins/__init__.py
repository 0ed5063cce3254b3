"""Folders of plugins: each Python file's server, loaded again when the file changes."""

from accord.compose.plugins.source import PluginFolder, folder

__all__ = ["PluginFolder", "folder"]
