"""Commands: translation in, translation out. Data goes to standard output, talk to standard error."""
