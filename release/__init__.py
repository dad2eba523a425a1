"""Builds and releases both distributions: `make build`, `make release VERSION=X.Y.Z`. Nothing here is shipped."""
