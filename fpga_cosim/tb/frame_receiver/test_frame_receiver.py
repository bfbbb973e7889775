"""Frames of every length, right and wrong, with pauses on both sides: headers, payloads, and ICRC verdicts."""

import numpy as np

from fanin_wire.icrc import icrc
from fpga_cosim.tb import frames
from fpga_cosim.tb.verilated import Module

HEAD, RING, MAX_BEATS, ICRC = 110, 5, 17, 4


def any_frame(generator: np.random.Generator, length: int, right: bool) -> bytes:
    """A frame of random bytes from an IPv4 header on, with its ICRC."""
    data = bytearray(generator.integers(0, 256, length, np.uint8).tobytes())
    data[14], data[23], data[16:18] = 0x45, 17, (length - 14).to_bytes(2)
    data[-ICRC:] = icrc(bytes(data[14:]))
    wrong_bit = int(generator.integers(8 * ICRC))
    if not right:
        data[-ICRC + wrong_bit // 8] ^= 1 << wrong_bit % 8
    return bytes(data)


def test_frames(generator: np.random.Generator) -> None:
    """The reader takes a header at random, and reads all beats of its payload."""
    module = Module("frame_receiver", {"MAX_BEATS": MAX_BEATS, "RING": RING})
    lengths = [*range(58, 260), *(HEAD + ICRC + size for size in (1016, 1020, 1024, 1028, 1100, 3000) * 3)]
    lengths = [lengths[i] for i in generator.permutation(len(lengths))]
    lengths += [HEAD + ICRC + 1100] * 12  # more than the ring holds, one behind the other
    right = [bool(each) for each in generator.integers(0, 2, len(lengths))]
    sent = [any_frame(generator, *each) for each in zip(lengths, right, strict=True)]
    beats = frames.to_beats(sent, module.inputs)
    inputs, place, head, taken, stood = np.zeros(1, module.inputs), 0, 0, 0, 0
    offered = False
    for _ in range(40 * len(beats)):
        offered = place < len(beats) and (offered or bool(generator.random() < 0.9))
        if offered:
            inputs[:] = beats[place : place + 1]
        inputs["s_axis_tvalid"], inputs["header_pop"], inputs["release_beats"] = offered, 0, 0
        output = module.run(inputs)[0]
        place += bool(offered and output["s_axis_tready"])
        stood += bool(offered and not output["s_axis_tready"])
        offered = offered and not output["s_axis_tready"]
        if not output["header_valid"] or generator.random() < (0.5, 0.97)[taken // 20 % 2]:
            continue
        frame = sent[taken]
        assert output["header_frame_bytes"] == len(frame)
        assert output["header_icrc_is_right"] == right[taken]
        assert output["header"].tobytes() == frame[:128].ljust(128, b"\0")
        payload = frame[HEAD:-ICRC]
        count = int(output["header_beats"])
        assert count == min(MAX_BEATS, -(-len(payload) // 64))
        got = b""
        for beat in range(count):
            inputs["s_axis_tvalid"], inputs["ring_address"] = 0, (head + beat) % (1 << RING)
            module.run(inputs)
            got += module.run(inputs)[0]["ring_data"].tobytes()
        assert got[: len(payload)] == payload[: 64 * MAX_BEATS]
        head += count
        inputs["s_axis_tvalid"], inputs["header_pop"], inputs["release_beats"] = 0, 1, count
        module.run(inputs)
        taken += 1
        if taken == len(sent):
            break
    assert taken == len(sent)
    assert stood > 40
    inputs["header_pop"] = inputs["release_beats"] = 0
    assert module.run(inputs)[0]["is_idle"]
