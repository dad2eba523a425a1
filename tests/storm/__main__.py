"""`python -m tests.storm`, see `replay`."""

import sys

from tests.storm.replay import main

sys.exit(main())
