/* Generated from fanin_wire by `python -m fanin_wire.c_tables`: do not edit. */
#include "tables.h"

const struct collective_row fanin_collectives[COLLECTIVE_COUNT] = {
    [0] = {"allreduce", FANIN_CLASS_ALL, 0, 0, {WHO_EVERYONE, 0}, {WHO_EVERYONE, 0}},
    [1] = {"reduce", FANIN_CLASS_ALL, 0, 0, {WHO_EVERYONE, 0}, {WHO_ROOT, 0}},
    [2] = {"reduce_scatter", FANIN_CLASS_ALL, 1, 0, {WHO_EVERYONE, 0}, {WHO_EVERYONE, 1}},
    [3] = {"broadcast", FANIN_CLASS_ONE, 0, 0, {WHO_ROOT, 0}, {WHO_OTHERS, 0}},
    [4] = {"allgather", FANIN_CLASS_ONE, 1, 0, {WHO_EVERYONE, 1}, {WHO_EVERYONE, 0}},
    [5] = {"gather", FANIN_CLASS_ONE, 1, 0, {WHO_EVERYONE, 1}, {WHO_ROOT, 0}},
    [6] = {"scatter", FANIN_CLASS_ONE, 1, 0, {WHO_ROOT, 0}, {WHO_EVERYONE, 1}},
    [7] = {"barrier", FANIN_CLASS_NONE, 0, 0, {WHO_NOBODY, 0}, {WHO_NOBODY, 0}},
    [8] = {"allgatherv", FANIN_CLASS_ONE, 1, 1, {WHO_EVERYONE, 1}, {WHO_EVERYONE, 0}},
    [9] = {"gatherv", FANIN_CLASS_ONE, 1, 1, {WHO_EVERYONE, 1}, {WHO_ROOT, 0}},
    [10] = {"scatterv", FANIN_CLASS_ONE, 1, 1, {WHO_ROOT, 0}, {WHO_EVERYONE, 1}},
};

const struct dtype_row fanin_dtypes[DTYPE_COUNT] = {
    [1] = {4, 0x3e, 0x0}, /* f32 */
    [2] = {8, 0x3e, 0x0}, /* f64 */
    [3] = {4, 0xffe, 0x0}, /* i32 */
    [4] = {8, 0xffe, 0x0}, /* i64 */
    [5] = {1, 0xffe, 0x0}, /* i8 */
    [6] = {2, 0xffe, 0x0}, /* i16 */
    [7] = {1, 0xffe, 0x0}, /* u8 */
    [8] = {2, 0xffe, 0x0}, /* u16 */
    [9] = {4, 0xffe, 0x0}, /* u32 */
    [10] = {8, 0xffe, 0x0}, /* u64 */
    [11] = {2, 0x3e, 0x32}, /* f16 */
    [12] = {2, 0x3e, 0x32}, /* bf16 */
    [13] = {1, 0x1c0, 0x0}, /* bool */
    [14] = {8, 0x2, 0x0}, /* c64 */
    [15] = {16, 0x2, 0x0}, /* c128 */
    [16] = {8, 0x3000, 0x0}, /* f32_i32 */
    [17] = {16, 0x3000, 0x0}, /* f64_i32 */
    [18] = {8, 0x3000, 0x0}, /* i16_i32 */
    [19] = {8, 0x3000, 0x0}, /* i32_i32 */
    [20] = {16, 0x3000, 0x0}, /* i64_i32 */
};

const struct status_row fanin_statuses[STATUS_COUNT] = {
    [0] = {"SUCCESS",
        "The operation is complete.",
        "Nothing is to be done."},
    [1] = {"PENDING",
        "The operation has begun and waits for others, who are named.",
        "Wait, or start the members that are missing."},
    [2] = {"BUFFER_ERROR",
        "A length, chunk or seg does not fit the lease of the job or the buffer.",
        "Give buffers of the same length on every rank, and post in order with the chunk that the job was granted."},
    [3] = {"LOCAL_PROTECTION_ERROR",
        "An address is outside the registered region, the region lacks the right, or its memory could be taken away.",
        "Give memory that the operation may read or write, and that stays until the request has ended. Memory to register is a memfd of ordinary pages, sealed with F_SEAL_SHRINK: Communicator.alloc (fanin_allocate in C) makes it."},
    [4] = {"PEER_LOST",
        "A process, device or link of the job has gone silent or has restarted.",
        "See who is named. Go on without them by Communicator.shrink (fanin_shrink in C), or repair what has failed and start the program again."},
    [5] = {"TIMEOUT",
        "The deadline of the work request passed before all members had posted.",
        "See which member is named as missing, or give a longer timeout or none."},
    [6] = {"OP_MISMATCH",
        "Members posted different operations, data types, lengths, roots, counts or orders for one position.",
        "Make every rank call the same collectives in the same order with the same operation, root, type and length."},
    [7] = {"NOT_CONFIGURED",
        "The device does not know the job.",
        "Join before posting. If the job was known, its device has restarted or has given it up: start the program again."},
    [8] = {"JID_IN_USE",
        "Another job, with another key, holds this job id on a device of the path.",
        "Choose another job id, or start the program again when the other job has left or has aged out."},
    [9] = {"NO_RESOURCES",
        "A device of the path has too few free slots, queues or job entries, or this client has its share of them.",
        "Ask for fewer slots (fanin run --slots, FANIN_MPI_SLOTS), or close communicators that are not needed."},
    [10] = {"ABORTED",
        "A member ended the job, or another operation of it has failed.",
        "See the first error of all ranks, which names the cause. If all ranks live, go on by Communicator.dup (fanin_dup in C); else start the program again."},
    [11] = {"FLUSHED",
        "The request was still queued when its queue pair was destroyed or its job ended.",
        "Wait for a request before you close its communicator or queue pair. If the job had ended, its first error names the cause."},
    [12] = {"NOT_SUPPORTED",
        "The device does not implement what was asked for.",
        "Use an operation and a data type that devices compute (Communicator.capabilities, fanin_is_supported in C), and a route that the fabric has."},
    [13] = {"INVALID_REQUEST",
        "A field of the request contradicts another one or the job.",
        "Correct the request; the device has done nothing."},
    [14] = {"VERSION_MISMATCH",
        "The two sides speak different versions of the protocol or of the host interface.",
        "Install the same version of Fanin on every host and restart the devices."},
    [15] = {"DEVICE_LOST",
        "The device has ended or has detached this client, or it stands still and does not wake up.",
        "Start the device again (fanin fabric restart starts one of a fabric of this machine), then the program."},
    [16] = {"QUEUE_FULL",
        "The send queue has no free entry.",
        "Take completions from the completion queue before posting more."},
    [17] = {"NO_DEVICE",
        "No device answers at the given socket.",
        "Check the path of the socket and that the device is running."},
    [18] = {"PERMISSION_DENIED",
        "The caller may not use the device, the memory or the job.",
        "Run as the user that owns the device, or have its owner grant access."},
    [19] = {"MEMBERS_MISMATCH",
        "Members described the job differently: other members, order, route or parameters.",
        "Give every rank the same description of the job."},
    [20] = {"CQ_OVERRUN",
        "A completion queue was full when the device had another completion; the job was ended.",
        "Take completions before posting more, or use a completion queue for each queue pair; then start the program again."},
    [21] = {"TOO_FEW_LANES",
        "A switch of the path has fewer lanes than the NICs of the job.",
        "Start every switch with at least as many lanes as the NICs have (--lanes), or the NICs with fewer."},
};
