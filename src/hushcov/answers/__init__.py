"""What people ask of a release: tables of pairs, and questions answered with intervals.

Everything here is computed from the document alone, and is covered by its guarantee: asking costs
nothing. Estimators and what `hushcov.load` returns have these functions as methods.
"""
