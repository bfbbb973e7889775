"""The requests of a schedule, from the seed, the side, the generation and the number."""

from numba import int64, uint64

from fanin_nic.native.memory import address_of, fill_zero
from fanin_sim.jit import internal
from fanin_sim.kernel.event_queue import draw, draw_below
from fanin_sim.rdma.codes import RequestKind, WrongRequest
from fanin_sim.rdma.pattern import fill
from fanin_sim.rdma.tables import (
    BUFFER,
    GENERATION_BYTES,
    GENERATIONS,
    MAX_MESSAGE,
    READ_AT,
    RECEIVE,
    RECEIVES_AT,
    REQUEST,
    REQUESTS,
    SLOTS,
    WORDS,
    WORDS_AT,
    WRITTEN_AT,
    device_row,
    receive_row,
    request_row,
    side_row,
)
from fanin_wire.abi import MAX_INLINE_DATA
from fanin_wire.rocev2 import Transport
from fanin_wire.verbs import CompletionStatus, RequestOpcode, SendFlag

# Of RequestKind
OPCODES = (
    *(RequestOpcode.SEND, RequestOpcode.SEND_WITH_IMM, RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_WRITE_WITH_IMM),
    *(RequestOpcode.RDMA_READ, RequestOpcode.RDMA_READ),
    *(RequestOpcode.ATOMIC_FETCH_AND_ADD, RequestOpcode.ATOMIC_CMP_AND_SWP),
)
WRITES = (RequestKind.WRITE, RequestKind.WRITE_WITH_IMMEDIATE)
MESSAGES = (RequestKind.SEND, RequestKind.SEND_WITH_IMMEDIATE, RequestKind.WRITE_WITH_IMMEDIATE)
RC_KINDS = (
    RequestKind.SEND,
    RequestKind.SEND,
    RequestKind.SEND_WITH_IMMEDIATE,
    RequestKind.WRITE,
    RequestKind.WRITE,
    RequestKind.WRITE,
    RequestKind.WRITE_WITH_IMMEDIATE,
    RequestKind.READ,
    RequestKind.READ,
    RequestKind.READ_BACK,
    RequestKind.READ_BACK,
    RequestKind.FETCH_ADD,
)
KIND, LENGTH, FLAGS, SLOT, OPERAND = 40, 41, 42, 43, 44  # purposes of random numbers
NO_MESSAGE = -1
REQUEST_SIZE, RECEIVE_SIZE = uint64(REQUEST.itemsize), uint64(RECEIVE.itemsize)
ROWS = GENERATIONS * REQUESTS


@internal
def request_of(w, side, generation, number):
    return request_row(w.requests, side * ROWS + generation * REQUESTS + number)


@internal
def receive_of(w, side, generation, number):
    return receive_row(w.receives, side * ROWS + generation * REQUESTS + number)


@internal
def part_at(w, side, generation):
    """Place of the memory of a side in a generation, in the memory of its device."""
    return side_row(w.sides, side).memory_at + generation * GENERATION_BYTES


@internal
def plan_side(w, side, generation):
    messages = 0
    for number in range(REQUESTS):
        request = request_of(w, side, generation, number)
        fill_zero(address_of(request), REQUEST_SIZE)
        plan_request(w, side, generation, number, request)
        request.message = NO_MESSAGE
        if request.kind in MESSAGES:
            request.message = messages
            messages += 1
        receive = receive_of(w, side, generation, number)
        fill_zero(address_of(receive), RECEIVE_SIZE)
        receive.place = part_at(w, side, generation) + RECEIVES_AT + number * BUFFER
        receive.length = BUFFER
    order_requests(w, side, generation)
    fill_read_areas(w, side, generation)


@internal
def plan_request(w, side, generation, number, request):
    """Choose kind, length, flags and places of a request."""
    ordinal, kind = generation * REQUESTS + number, side_row(w.sides, side).kind
    request.kind = choose_kind(w, side, ordinal, kind)
    request.opcode = OPCODES[request.kind]
    request.length = choose_length(w, side, ordinal, kind)
    if request.kind >= RequestKind.FETCH_ADD:
        request.length = 8
    drawn = draw(w.seed, FLAGS, side, ordinal)
    request.flags = SendFlag.SIGNALED if drawn & 3 or number + 1 == REQUESTS else 0
    if drawn >> 2 & 7 == 0:
        request.flags |= SendFlag.FENCE
    if drawn >> 5 & 7 == 0:
        request.flags |= SendFlag.SOLICITED
    if drawn >> 8 & 1 and request.length <= MAX_INLINE_DATA and request.kind < RequestKind.READ:
        request.flags |= SendFlag.INLINE
    request.pattern = (side * ROWS + ordinal + 1) * 1_000_003 + int64(w.seed & uint64(0xFFFFFFFF))
    request.local = part_at(w, side, generation) + number * BUFFER
    request.remote = part_at(w, side ^ 1, generation) + remote_place(w, side, ordinal, request)


@internal
def choose_kind(w, side, ordinal, service):
    drawn = draw(w.seed, KIND, side, ordinal)
    if service == Transport.UD:
        return RequestKind.SEND_WITH_IMMEDIATE
    if service == Transport.UC:
        return RequestKind.SEND_WITH_IMMEDIATE if drawn & 1 else RequestKind.WRITE
    chosen = RC_KINDS[drawn % len(RC_KINDS)]
    return RequestKind.COMPARE_SWAP if chosen == RequestKind.FETCH_ADD and drawn >> 20 & 1 else chosen


@internal
def choose_length(w, side, ordinal, service):
    """Length of a message: often one at which the number of packets changes."""
    drawn = draw(w.seed, LENGTH, side, ordinal)
    limit = min(MAX_MESSAGE, w.mtu if service == Transport.UD else MAX_MESSAGE)
    choices = (0, 1, 7, 100, w.mtu - 1, w.mtu, w.mtu + 1, 2 * w.mtu)
    pick = drawn & 15
    length = choices[pick] if pick < len(choices) else (drawn >> 4) % (limit + 1)
    return min(length, limit)


@internal
def remote_place(w, side, ordinal, request):
    """Place in the other side's memory for a request, from the start of its part on."""
    slot = draw_below(w.seed, SLOT, side, ordinal, SLOTS)
    if request.kind >= RequestKind.FETCH_ADD:
        return WORDS_AT + 8 * (slot % WORDS)
    return (READ_AT if request.kind == RequestKind.READ else WRITTEN_AT) + slot * BUFFER


@internal
def order_requests(w, side, generation):
    """What the order of requests sets: data for reads and atomics, and fences where a write might overtake a read."""
    for number in range(REQUESTS):
        request = request_of(w, side, generation, number)
        if request.kind == RequestKind.READ_BACK:
            read_back(w, side, generation, number, request)
        elif request.kind in WRITES:
            fence_after_read(w, side, generation, number, request)
        elif request.kind >= RequestKind.FETCH_ADD:
            plan_atomic(w, side, generation, number, request)
        elif request.kind == RequestKind.READ:
            request.pattern = read_pattern(request.remote)


@internal
def read_pattern(place):
    """Pattern of an area that is only read."""
    return place * 7 + 3


@internal
def read_back(w, side, generation, number, request):
    """A read of the data of the last write to the same area, or an ordinary read if there was none."""
    for earlier in range(number - 1, -1, -1):
        other = request_of(w, side, generation, earlier)
        if other.kind in WRITES and other.remote == request.remote and other.length > 0:
            request.length = min(request.length, other.length)
            request.pattern = other.pattern
            return
    request.kind = RequestKind.READ
    request.remote = request.remote - WRITTEN_AT + READ_AT
    request.pattern = read_pattern(request.remote)


@internal
def fence_after_read(w, side, generation, number, request):
    """A write to an area that an earlier request reads begins after that one has ended."""
    for earlier in range(number):
        other = request_of(w, side, generation, earlier)
        if other.kind == RequestKind.READ_BACK and other.remote == request.remote:
            request.flags |= SendFlag.FENCE


@internal
def plan_atomic(w, side, generation, number, request):
    """The operand and expected value of an atomic, after the requests before it."""
    original = uint64(0)
    for earlier in range(number):
        other = request_of(w, side, generation, earlier)
        if other.kind >= RequestKind.FETCH_ADD and other.remote == request.remote:
            original = other.result
    drawn = draw(w.seed, OPERAND, side, generation * REQUESTS + number)
    request.original = original
    request.operand = uint64(drawn) << uint64(17)
    request.compare = original if drawn & 1 else original + uint64(1)
    if request.kind == RequestKind.FETCH_ADD:
        request.result = original + request.operand
    else:
        request.result = request.operand if request.compare == original else original


@internal
def fill_read_areas(w, side, generation):
    device = device_row(w.devices, side_row(w.sides, side).device)
    for slot in range(SLOTS):
        place = part_at(w, side, generation) + READ_AT + slot * BUFFER
        fill(device.memory + uint64(place), read_pattern(place), MAX_MESSAGE)


@internal
def make_wrong(w):
    """Make the wrong request of a schedule, if it has one. It is signaled, and so are those behind it."""
    if w.wrong_side < 0 or side_row(w.sides, w.wrong_side).kind != Transport.RC:
        return
    side, generation = w.wrong_side, w.wrong_generation
    request = request_of(w, side, generation, w.wrong_request)
    kind = w.wrong_kind
    if request.kind >= RequestKind.FETCH_ADD:
        kind = WrongRequest.MISALIGNED
    elif request.kind == RequestKind.SEND or request.kind == RequestKind.SEND_WITH_IMMEDIATE:
        has_receive = request.length > 0 and not w.is_shared  # one that it will surely go to, to be made too short
        kind = WrongRequest.TOO_LONG if kind != WrongRequest.LOCAL_KEY and has_receive else WrongRequest.LOCAL_KEY
    elif kind != WrongRequest.LOCAL_KEY and kind != WrongRequest.BEYOND_REGION:
        kind = WrongRequest.REMOTE_KEY
    request.length = max(1, request.length)
    if kind == WrongRequest.LOCAL_KEY:
        request.flags &= ~SendFlag.INLINE
        request.wanted = CompletionStatus.LOC_PROT_ERR
    elif kind == WrongRequest.MISALIGNED:
        request.remote += 1
        request.wanted = CompletionStatus.REM_INV_REQ_ERR
    elif kind == WrongRequest.TOO_LONG:
        receive_of(w, side ^ 1, generation, request.message).length = request.length - 1
        request.wanted = CompletionStatus.REM_INV_REQ_ERR
    else:
        request.wanted = CompletionStatus.REM_ACCESS_ERR
    request.wrong = kind
