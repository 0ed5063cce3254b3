"""The command line by the name of the package: `python -m accord`."""

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:2] == ["exec"]:
        # Hosts wait for it at every start of a server: without the parser it takes half the time.
        from accord_tools.hosts.commands.exec import run_at_once

        code = run_at_once(sys.argv[2:])
        if code is not None:
            return code
    from accord.cli import main as command_line

    return command_line.main()


if __name__ == "__main__":
    sys.exit(main())
