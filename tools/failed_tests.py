"""Take the names of groups out of the list of failed tests, so that pytest finds the tests again.

    .venv/bin/python tools/failed_tests.py .pytest_cache/foreign/v/cache/lastfailed

With `--dist loadgroup` pytest-xdist appends `@group` to each name.
"""

import json
import re
import sys
from pathlib import Path

for name in sys.argv[1:]:
    path = Path(name)
    failed = json.loads(path.read_text())
    path.write_text(json.dumps({re.sub(r"@\w+$", "", each): True for each in failed}))
