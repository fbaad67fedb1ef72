"""Numbers and sentences about a release, once for the terminal, HTML and JSON."""
