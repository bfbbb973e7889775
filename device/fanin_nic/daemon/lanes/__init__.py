"""The lanes of a device as Python sees them, and the host interface before them.

Each lane is an engine with a port and a thread of its own. It sees an ordinary host: rings that the splitter fills and
empties in the loop of lane 0.
"""
