"""The program: the console script `acp-server`, or `python -m acp_server` where that script is not installed."""

import sys


def main() -> int:
    """Run the command line. Returns its exit code. Ctrl-C ends it with 130, even while its modules are imported."""
    try:
        from acp_server.apps.cli import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
