"""The program: the console script `acp-server`, and `python -m acp_server` where that is not installed."""

import sys


def main() -> int:
    """Run the command line. Returns its exit code. Ctrl-C ends it with 130, also while its modules are imported."""
    try:
        from acp_server.apps.cli import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
