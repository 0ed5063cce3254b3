"""The live connection of a session: connect, lists, calls, questions, roots, tasks, reload."""
