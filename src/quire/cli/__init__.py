"""Commands: translate arguments in and results out. Data goes to standard output, messages to standard error."""
