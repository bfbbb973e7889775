"""The compiled entry points of the transport: one for each event.

`base`: address of the arena; `now`: time in ns. Each event converts its arguments to fixed types, so that the code
behind it is compiled once for all callers.
"""

from numba import int64

from fanin_nic.engine.records.actions import RECEIVED_SIZE, received_at
from fanin_nic.native.compiled import compiled, internal
from fanin_nic.transport import parse, queue_pairs
from fanin_nic.transport.output import has_room
from fanin_nic.transport.records.accessors import (
    NEVER,
    U32,
    U64,
    make_ready,
    queue_pair_at,
    shared_queue_at,
    take_ready,
    transport_at,
)
from fanin_nic.transport.requester import send, start
from fanin_nic.transport.requester.send import send_requests
from fanin_nic.transport.responder.respond import respond
from fanin_wire.verbs import QueuePairState

TURN = 16  # packets of one queue pair before the next one


@compiled
def packet(base, address, length, source, now):
    """Event: a packet of ordinary traffic with a right ICRC has arrived."""
    t = transport_at(U64(base))
    t.now = now
    parse.on_packet(t, U64(address), int64(length), U32(source))


@compiled
def packets(base, received, first, count, now):
    """Event: the packets `first` to `count` - 1 of a table of RECEIVED have arrived. Returns the number of the first
    one not taken: if the table of actions is half full, the driver must perform the actions before it goes on."""
    t = transport_at(U64(base))
    t.now = now
    index = int64(first)
    while index < count and int64(t.action_count) <= int64(t.actions) // 2:
        entry = received_at(U64(received) + U64(index) * RECEIVED_SIZE)
        parse.on_packet(t, entry.address, int64(entry.length), U32(entry.source))
        index += 1
    return index


@compiled
def post_send(base, index, wqe, now):
    """Event: a work request was copied out of a send ring. Returns 0, without effect, if the queue is full."""
    t = transport_at(U64(base))
    t.now = now
    q = queue_pair_at(t, U64(index))
    if not send.can_post_send(t, q):
        return 0
    send.post_send(t, q, U64(wqe))
    return 1


@compiled
def post_receive(base, index, wqe, now):
    """Event: a work request was copied out of a receive ring. Returns 0, without effect, if the queue is full."""
    t = transport_at(U64(base))
    t.now = now
    q = queue_pair_at(t, U64(index))
    if not send.can_post_receive(t, q):
        return 0
    send.post_receive(t, q, U64(wqe))
    return 1


@compiled
def post_shared(base, index, wqe, now):
    """Event: a work request came from a shared receive queue's ring. Returns 0, without effect, if it is full."""
    t = transport_at(U64(base))
    t.now = now
    shared = shared_queue_at(t, U64(index))
    if not queue_pairs.can_post_shared(shared):
        return 0
    send.post_shared(t, shared, U64(wqe))
    return 1


@compiled
def can_post_send(base, index):
    t = transport_at(U64(base))
    return send.can_post_send(t, queue_pair_at(t, U64(index)))


@compiled
def can_post_receive(base, index):
    t = transport_at(U64(base))
    return send.can_post_receive(t, queue_pair_at(t, U64(index)))


@compiled
def can_post_shared(base, index):
    t = transport_at(U64(base))
    return queue_pairs.can_post_shared(shared_queue_at(t, U64(index)))


@compiled
def give_back(base, index):
    """Event: a queue pair is about to be reset or destroyed; requests that it took of a shared queue go back."""
    t = transport_at(U64(base))
    queue_pairs.give_back(t, queue_pair_at(t, U64(index)))


@compiled
def serve(base, turns, now):
    """Give up to `turns` turns to the queue pairs with work (responses, acknowledgements, requests, flushes); returns
    how many had one. The driver performs the actions and calls again until it is 0."""
    t = transport_at(U64(base))
    t.now = now
    served = 0
    while served < turns and has_room(t):
        index = take_ready(t)
        if index < 0:
            break
        take_turn(t, queue_pair_at(t, U64(index)))
        served += 1
    return served


@internal
def take_turn(t, q):
    """Answers go before requests, so that the other side gets on."""
    if q.qpn == 0:
        return
    more = respond(t, q, TURN)
    more |= send_requests(t, q, TURN)
    if q.state == QueuePairState.ERR or q.state == QueuePairState.SQE:
        more = queue_pairs.flush(t, q)
    if more:
        make_ready(t, q)


@compiled
def tick(base, now):
    """Event: time has passed; useful from `next_deadline` on."""
    t = transport_at(U64(base))
    t.now = now
    t.next_deadline = NEVER
    for index in range(int64(t.queue_pair_end)):
        q = queue_pair_at(t, U64(index))
        if not has_room(t):  # the next call goes on
            t.next_deadline = t.now
            return
        if q.qpn:
            start.pass_time(t, q)
            t.next_deadline = min(t.next_deadline, start.next_deadline(q))


@compiled
def fail(base, index, now):
    """Event: a queue pair can not go on, or its program has set it to ERR."""
    t = transport_at(U64(base))
    t.now = now
    queue_pairs.fail_queue_pair(t, queue_pair_at(t, U64(index)))


@compiled
def fail_unreadable(base, number, now):
    """Event: the payload of action `number`, the SEND of a requester, is unreadable. Actions taken back become NONE,
    and completions are added."""
    t = transport_at(U64(base))
    t.now = now
    send.fail_unreadable(t, int64(number))


@compiled
def wake(base, index, now):
    """Event: the state of a queue pair has changed; its queues need service."""
    t = transport_at(U64(base))
    t.now = now
    make_ready(t, queue_pair_at(t, U64(index)))
