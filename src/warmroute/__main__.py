"""`python -m warmroute` is the same as the `warmroute` command."""

from warmroute.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
