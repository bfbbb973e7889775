"""Real faults on a running fabric: lost packets, links that go down, devices and ranks that are killed or frozen."""
