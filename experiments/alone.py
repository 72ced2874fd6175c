"""Run a command while the queue of runs waits, so that what it times is timed on a quiet machine.

python experiments/alone.py python benchmarks/layers.py
"""

from __future__ import annotations

import subprocess
import sys

from running import quiet


def main() -> None:
    """Run the command line behind the script's name; end as it ends."""
    if not sys.argv[1:]:
        sys.exit("alone.py: the command is missing; expected one to run, for example: python benchmarks/layers.py")
    with quiet():
        sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)


if __name__ == "__main__":
    main()
