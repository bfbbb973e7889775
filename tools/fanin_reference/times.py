"""The times of section 14."""

DETECTION_S, AGEING_S = 5.0, 60.0
KEEPALIVE_S = DETECTION_S / 10
TICK_S = 0.05  # between two ticks at most; a KEEPALIVE goes out one tick early, never late
NAK_S = 0.001  # [5-12]
JUST_SENT_S = 0.020 / 4  # [8-18]: a quarter of the first reorder time
