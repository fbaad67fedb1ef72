"""Screened release: which pairs, by a private selection; their values, by a norm-clipped sum."""
