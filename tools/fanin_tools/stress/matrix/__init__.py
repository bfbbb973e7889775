"""The matrix: every collective over every topology, with every operation, type and size, compared with numpy."""
