"""The suite is a black box: it shares nothing with the runtime that it may be judging."""

import subprocess
import sys


def test_no_part_of_the_suite_needs_the_package() -> None:
    """Whatever is imported, statically or not: with the package out of reach every module of the suite still loads."""
    program = (
        "import sys, pkgutil, importlib\n"
        "sys.modules['acp_server'] = None\n"
        "import acp_conformance\n"
        "for module in pkgutil.walk_packages(acp_conformance.__path__, 'acp_conformance.'):\n"
        "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
