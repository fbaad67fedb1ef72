"""Empirical lower bounds on epsilon: every mechanism attacked on neighbouring datasets."""
