"""Published competitors and studies, for public tables: sums are rounded, and noise has a seed."""
