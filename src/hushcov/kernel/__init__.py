"""The trusted kernel: the only code that sees records, draws noise or spends budget."""
