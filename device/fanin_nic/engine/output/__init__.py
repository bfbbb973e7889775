"""What the engine asks its driver to do: packets and completions, appended to the table of actions."""
