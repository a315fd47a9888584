"""What the YAML files of runs hold."""
