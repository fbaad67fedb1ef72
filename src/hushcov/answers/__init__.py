"""Questions to a release: tables of pairs, regression, components, with intervals.

Everything here is computed from the document alone, and is covered by its guarantee: asking costs
nothing. Estimators and what `hushcov.load` returns have these functions as methods.
"""
