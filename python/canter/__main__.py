"""`python -m canter`."""

from __future__ import annotations

import sys

from canter.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
