"""The tables between engine and driver: what the engine asks to be done, in order, and the packets that it is given."""

import enum

import numpy as np

from fanin_nic.native.memory import record_at

READ_BYTES = 65536  # of one DMA_READ, at most
RECEIVED = np.dtype(
    [
        ("source", "u4"),  # IPv4 address of the sender
        ("length", "u4"),  # bytes from the BTH to before the ICRC, padding included
        ("address", "u8"),  # of the BTH
    ],
    align=True,
)
RECEIVED_SIZE = np.uint64(RECEIVED.itemsize)
received_at = record_at(RECEIVED)


class ActionKind(enum.IntEnum):
    NONE = 0
    SEND = 1  # a packet: the header record of the same index, and the payload
    DMA_READ = 2  # memory of a client's process to the device; the event `dma_done` answers
    DMA_WRITE = 3  # memory of the device to a client
    COMPLETE = 4  # a completion queue entry
    NOTICE = 5  # the answer to a JOIN or LEAVE of a queue pair
    REDUCE = 6  # memory of ranks into memory of ranks: followed by its SOURCEs and TARGETs
    SOURCE = 7  # memory of a rank that a REDUCE reads
    TARGET = 8  # memory of a rank that a REDUCE writes
    ARRIVAL = 9  # data for a rank that has not posted its request


ACTION = np.dtype(
    [
        ("kind", "u1"),
        ("status", "u1"),  # COMPLETE, NOTICE: enum fanin_status
        ("missing_kind", "u1"),  # COMPLETE, NOTICE: 0 ranks of this node, 1 nodes
        ("opcode", "u1"),  # COMPLETE: of the WQE; NOTICE: enum fanin_message_type; ARRIVAL: enum fanin_dtype
        ("queue", "u4"),  # all but SEND: index of the send queue
        ("destination", "u4"),  # SEND: IPv4 address, host order
        ("length", "u4"),  # SEND: payload bytes without padding; NOTICE: chunk; else bytes
        ("payload", "u8"),  # SEND, DMA, ARRIVAL: address of the data on the device; REDUCE: room for a block
        ("remote", "u8"),  # DMA, SOURCE, TARGET: address in the memory of the client (see `process`)
        ("process", "u4"),  # DMA: 0: `remote` is mapped here; else 1 + the client whose process memory it is in
        ("position", "u4"),  # DMA_READ, REDUCE, TARGET: the first; DMA_WRITE: position; COMPLETE: positions done
        ("count", "u4"),  # DMA_READ: positions; REDUCE: SOURCEs; COMPLETE: number of the queue pair
        ("jid", "u4"),  # COMPLETE, NOTICE, ARRIVAL
        ("mid", "u4"),  # COMPLETE, DMA_WRITE, TARGET, ARRIVAL
        ("window", "u4"),  # NOTICE: granted window
        ("wr_id", "u8"),  # COMPLETE, DMA_WRITE; NOTICE: tag of the request
        ("byte_length", "u8"),  # COMPLETE: bytes done; NOTICE: granted slots, or what stands in their place
        ("missing", "u8"),  # COMPLETE, NOTICE: bitmap of the missing members
        ("address_index", "u4"),  # DMA_READ: which entry of the address list
        ("targets", "u4"),  # REDUCE: TARGETs
        ("lost_device", "u4"),  # COMPLETE: IPv4, host order
        ("is_long", "u4"),  # DMA_WRITE, REDUCE: 1: part of more than the caches hold
    ],
    align=True,
)
