"""`python -m warmroute.launch` is `warmroute serve`, for start scripts that were written for FastDeploy's launcher."""

from __future__ import annotations

import sys

from warmroute.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["serve", *sys.argv[1:]]))
