"""The transport's output: packets, memory and completions, appended to the table of actions."""
