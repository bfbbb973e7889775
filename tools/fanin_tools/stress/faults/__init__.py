"""Real faults on a running fabric: packets lost, links cut, devices and ranks killed or frozen."""
