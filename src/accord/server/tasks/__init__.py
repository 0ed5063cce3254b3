"""Tasks: calls whose results are fetched later, of 2025-11-25 and of the later extension.

settings    what servers allow: how long, how many, where they are kept
runner      runs tasks, and changes their records
channel     how the handler of a task asks its client
fields      the members of a task in messages
calls       from a tool call to a task
core        the methods of 2025-11-25
extension   the methods of the extension
"""

from accord.server.tasks.settings import TaskSettings

__all__ = ["TaskSettings"]
