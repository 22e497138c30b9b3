"""`python -m tiermem` is the command `tiermem`."""

import sys

from tiermem.cli import main

if __name__ == "__main__":
    sys.exit(main())
