"""The commands of the command line, one module each with NAME, HELP, add_arguments and run."""
