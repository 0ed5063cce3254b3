"""Tasks: calls whose results are fetched later, of 2025-11-25 and of the later extension.

settings    what servers allow: how long, how many, where they are kept
runner      runs tasks, and changes their records
finding     finds tasks for requests
watching    how changes of tasks are noticed
channel     how the handler of a task asks its client
asking      questions of a task that another process runs
takeover    the tasks of a worker that is lost
repeating   what is needed to run a task again
fields      the members of a task in messages
outcomes    how the work of a task ended
calls       from a tool call to a task
core        the methods of 2025-11-25
extension   the methods of the extension
"""

from accord.server.tasks.settings import TaskSettings

__all__ = ["TaskSettings"]
