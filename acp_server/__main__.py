"""`python -m acp_server`, where the console script is not installed."""

import sys

from acp_server.cli import main

if __name__ == "__main__":
    sys.exit(main())
