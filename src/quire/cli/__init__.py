"""Commands: arguments in, results out. Data goes to standard output, messages to standard error."""
