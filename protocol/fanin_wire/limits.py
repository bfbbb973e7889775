"""Limits and defaults of devices, jobs and fabrics. No imports, so that a command line's help costs nothing."""

MIN_MTU, MAX_MTU, DEFAULT_MTU = 1280, 65535, 9000  # bytes of an IP packet
MAX_VERBS_MTU = 4096 + 28  # over verbs: a datagram of the largest path MTU of InfiniBand, behind IPv4 and UDP
# Payload bytes of a segment. A device takes jobs of any chunk up to what fits into its MTU.
MIN_CHUNK, MAX_CHUNK = 256, 8192
MAX_JOB_CHUNK = 4096  # the largest path MTU of InfiniBand; `fanin run` asks for no more
MAX_AHEAD = 4096  # bytes of a message of one rank that goes ahead of its result (SPEC.md, 7.5)

# Segment buffers of each lane of a device, and of the lease of a job on each device: powers of two
MIN_DEVICE_SLOTS, MAX_DEVICE_SLOTS, DEFAULT_DEVICE_SLOTS = 2, 1 << 20, 4096
MIN_JOB_SLOTS, MAX_JOB_SLOTS, DEFAULT_JOB_SLOTS = 4, MAX_DEVICE_SLOTS, 256

MAX_LANES = 16  # cores that one device uses: a power of two

# Seconds of silence after which a neighbour is lost; equal on all devices of a fabric. The first round trip that a
# device measures may take 200 ms.
MIN_DETECTION, MAX_DETECTION, DEFAULT_DETECTION = 0.2, 3600.0, 5.0

MAX_DEVICES = 4096  # of a fabric
