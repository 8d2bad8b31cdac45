"""Print the transcript of a server: `HOST:PORT [WORD]`, scenes with WORD only."""

from __future__ import annotations

import sys

from .run import run

if __name__ == "__main__":
    for step in run(*sys.argv[1:3]):
        print(step)
