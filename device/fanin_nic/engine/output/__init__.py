"""The engine's output: packets and completions, appended to the table of actions."""
