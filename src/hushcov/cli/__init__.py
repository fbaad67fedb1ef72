"""The command line: one module for each command."""

#: Exit code of commands that check something, where the check failed.
CHECK_FAILED = 1
