"""The object that agent authors write against, and the ways to serve it: standard input and output, or any stream."""
