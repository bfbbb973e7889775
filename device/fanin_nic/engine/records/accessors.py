"""Accessors of the tables for compiled code, and the addresses of their rows. Record 0094: why a record comes from
here, never from a return value."""

import numpy as np
from numba import int32, int64, uint32, uint64

from fanin_nic.engine.records.actions import ACTION
from fanin_nic.engine.records.tables import CHILD, ENGINE, JOB, MAX_CHILDREN, QUEUE, REGION, REQUEST, SLOT
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, load_u64, record_at, row_at, store_u64
from fanin_wire import abi, fields

_SCALARS = [name for name in (REQUEST.names or ()) if name != "address"]
_FIRST_ADDRESS = np.uint64(REQUEST.fields["address"][1])  # type: ignore[index]
_REQUEST_SIZE = np.uint64(REQUEST.itemsize)
_ADDRESS_SIZE = np.uint64(abi.ADDRESS.itemsize)

engine_at = record_at(ENGINE)
job_at = row_at(ENGINE, "job_offset", JOB)
slot_at = row_at(ENGINE, "slot_offset", SLOT)
queue_at = row_at(ENGINE, "queue_offset", QUEUE)
region_at = row_at(ENGINE, "region_offset", REGION)
action_at = row_at(ENGINE, "action_offset", ACTION)
header_at = row_at(ENGINE, "header_offset", fields.HEADER)
child_at = row_at(ENGINE, "child_offset", CHILD)  # index: child_index(job, bit)
REQUEST_SCALARS = REQUEST[_SCALARS]
request_at = row_at(ENGINE, "request_offset", REQUEST_SCALARS)  # index: request_index(e, queue index, counter)
address_record = record_at(abi.ADDRESS)
wqe_at = record_at(
    abi.WQE[[name for name in abi.WQE.names or () if name != "address"]]
)  # the address list is read by address


U32 = uint32
U64 = uint64
NEVER = np.uint64(2**64 - 1)
ONE = np.uint64(1)
ZERO = np.uint64(0)


@internal
def child_index(job, bit):
    return U64(job.index) * U64(MAX_CHILDREN) + U64(bit)


@internal
def request_index(e, queue_index, counter):
    """Row of the request with the free-running number `counter` in its queue."""
    return U64(queue_index) * U64(e.requests) + (U64(counter) & (U64(e.requests) - ONE))


@internal
def slot_index(job, position):
    """Row of the slot that serves a position of a job."""
    return U64(job.slot_base) + (U64(position) & (U64(job.slots) - ONE))


@internal
def payload_at(e, index):
    """Address of the payload of slot `index`."""
    return address_of(e) + e.payload_offset + U64(index) * U64(e.stride)


@internal_for(ENGINE, int64, int64)
def add(e, counter, number):
    address = address_of(e) + e.counter_offset + U64(counter) * U64(8)
    store_u64(address, load_u64(address) + U64(number))


@internal
def count(e, counter):
    add(e, counter, 1)


@internal
def bit_of(number):
    return ONE << U64(number)


@internal
def distance(a, b):
    """Positions from b to a, modulo 2^32, as a signed number."""
    return int64(int32(U32(U64(a) - U64(b))))


@internal
def address_place(request, entry):
    """Address of an entry of a request's address list, an abi.ADDRESS. The first, for most the only, is in the
    request."""
    if entry == 0:
        return address_of(request) + _FIRST_ADDRESS
    return address_of(request) + request.list + U64(entry - 1) * _ADDRESS_SIZE


@internal
def list_distance(e, index):
    """Distance from the request in row `index` to the addresses of its further ranks."""
    places = U64(index) * (U64(e.addresses) - ONE) * _ADDRESS_SIZE
    return e.list_offset + places - (e.request_offset + U64(index) * _REQUEST_SIZE)


@internal
def payload_of(e, job, position):
    """Address of the payload of the slot that serves a position."""
    return buffer_of(e, job, position, 0)


@internal
def buffer_of(e, job, position, number):
    """Address of a payload buffer of the slot that serves a position; buffer 0 is the payload."""
    place = (U64(position) & (U64(job.slots) - ONE)) * U64(job.buffers) + U64(number) * U64(job.span)
    return payload_at(e, U64(job.slot_base) + place)
