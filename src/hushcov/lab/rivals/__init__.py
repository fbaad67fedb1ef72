"""Published competitors, and the studies that hold hushcov against them.

They are for measurements on public tables: sums are floating-point and noise comes from a generator
of NumPy that has a seed. What they spend is counted as for a release all the same.
"""
