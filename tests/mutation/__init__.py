"""Which conditions of the package no test holds: each is forced to either side, and the tests that reach it are run."""
