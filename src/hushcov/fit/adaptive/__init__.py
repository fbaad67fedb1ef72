"""Adaptive release: nothing is assumed of the structure, and the budget goes where it helps."""
