"""Programs that the tests of tools start."""
