"""Readers of tables: memory, files, codebooks, units, clusters and sites."""
