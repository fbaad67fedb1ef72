"""Figures of releases and of checks. Matplotlib is optional and imported when it is used."""
