"""MCP over stdin and stdout: lines, pipes, child processes."""
