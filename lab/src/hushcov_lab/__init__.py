"""The laboratory: attacks, benchmarks and checks of the theorem. Nothing outside imports it."""
