"""The CRC of frames of every length, without gaps and with pauses, is the definition's."""

import numpy as np

from fanin_wire.fields import ICRC_SIZE
from fanin_wire.icrc import icrc
from fpga_cosim.tb.verilated import Module

BYTES, LATENCY, ETHERNET, RIGHT = 64, 9, 14, 0x2144DF1C


def beats_of(frame: bytes, dtype: np.dtype) -> np.ndarray:
    count = -(-len(frame) // BYTES)
    beats = np.zeros(count, dtype)
    padded = frame + bytes([0xA5]) * (count * BYTES - len(frame))
    beats["data"] = np.frombuffer(padded, np.uint8).reshape(count, BYTES)
    beats["bytes"] = BYTES
    beats["bytes"][-1] = len(frame) - BYTES * (count - 1)
    beats["is_valid"] = 1
    beats["is_first"][0] = 1
    return beats


def test_frames_of_every_length(generator: np.random.Generator) -> None:
    module = Module("icrc")
    frames = []
    for length in [*range(60, 330), *generator.integers(330, 4200, 50).tolist()]:
        frame = bytearray(generator.integers(0, 256, length, np.uint8).tobytes())
        frame[ETHERNET], frame[ETHERNET + 9] = 0x45, 17  # an IPv4 header without options, UDP behind it
        frame[ETHERNET + 2 : ETHERNET + 4] = (length - ETHERNET + ICRC_SIZE).to_bytes(2)
        frames.append(bytes(frame))
    frames = [frames[i] for i in generator.permutation(len(frames))]
    expected = []
    for number, frame in enumerate(frames):
        crc = icrc(frame[ETHERNET:] + bytes(ICRC_SIZE))
        if number % 2:
            frames[number] = frame + crc
        expected.append(RIGHT if number % 2 else int.from_bytes(crc, "little"))
    every = np.concatenate([beats_of(frame, module.inputs) for frame in frames])
    pauses = np.zeros(len(every), module.inputs)  # between beats, too
    pauses["is_first"] = 1
    kept = generator.random(len(every)) < 0.1
    every = np.stack([every, pauses], 1)[np.stack([np.ones(len(every), bool), kept], 1)]
    beats = np.flatnonzero(every["is_valid"])
    lasts = beats[np.append(every["is_first"][beats[1:]], 1) == 1]
    steps = generator.random(2 * len(every)) >= 0.25
    place = np.minimum(np.cumsum(steps) - steps, len(every) - 1)
    inputs = every[place]
    inputs["advance"] = steps
    crcs = module.run(inputs)["crc"]
    for crc, last in zip(expected, lasts[: -LATENCY - 1], strict=False):
        clock = np.flatnonzero(place == last + LATENCY)[0]
        assert crcs[clock] == crc, f"frame whose last beat is {last}: {crcs[clock]:08x}, not {crc:08x}"
