"""The lanes of a device for Python, and the host interface before them.

Each lane is an engine with its own port and thread. Its host is the splitter, which fills and empties its rings in the
loop of lane 0.
"""
