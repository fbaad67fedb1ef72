"""Exact integer sums over rows and units. Nothing here is private: `session` adds the noise."""
