"""What the transport asks its driver to do: packets, memory and completions, appended to the table of actions."""
