"""`python -m acp_conformance`."""

from .cli import main

if __name__ == "__main__":
    main()
