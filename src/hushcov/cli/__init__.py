"""The `hushcov` command line: one thin module per command."""
