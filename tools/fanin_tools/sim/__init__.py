"""`fanin sim`: how a simulated collective is shown."""
