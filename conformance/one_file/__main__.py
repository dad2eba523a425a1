"""The start of the one file: it unpacks itself into a temporary folder, and runs the suite there.

The suite reads its schema and its profiles as files, and clients under test start one of its programs.
"""

import sys
import tempfile
import zipfile
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - an older one may run this file
    sys.exit("acp-conformance needs Python 3.11 or newer")

with tempfile.TemporaryDirectory(prefix="acp-conformance-") as folder:
    with zipfile.ZipFile(Path(__file__).parent) as archive:
        archive.extractall(folder)
    sys.path[0] = folder
    from acp_conformance.cli import main

    main(prog_name="acp-conformance")
