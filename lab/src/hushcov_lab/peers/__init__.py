"""Published mechanisms, run soundly: one room each."""
