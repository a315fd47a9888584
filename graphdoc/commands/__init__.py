"""The commands of the command line, each a function."""
