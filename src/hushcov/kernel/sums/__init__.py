"""Exact integer sums over rows and units: the only layer, with `tables`, that touches data.

Mechanisms add the noise; nothing here is private by itself.
"""
