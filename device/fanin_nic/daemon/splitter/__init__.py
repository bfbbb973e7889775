"""The splitter of a device of several lanes: it cuts requests for the lanes and merges their completions."""
