"""The command line by the name of the package: `python -m accord`."""

import sys

from accord.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
