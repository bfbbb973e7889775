"""Detection time: seconds of silence after which a device takes its neighbour for lost. Alike on all devices."""

DEFAULT_DETECTION = 5.0
SHORTEST_DETECTION, LONGEST_DETECTION = 0.2, 3600.0  # a round trip that is measured first may take 200 ms
