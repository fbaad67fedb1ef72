"""Theorem 1 and every lemma of the paper, checked numerically at the paper's own constants."""
