"""The machine that it runs on: files, processes, devices, memory, and text that is safe to print."""
