"""The virtual machine: its packages, its first file system, its process, and the channel to the agent in it."""
