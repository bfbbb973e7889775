/* Collectives, types and statuses; tables.c and table_sizes.h are generated from fanin_wire. */
#ifndef FANIN_TABLES_H
#define FANIN_TABLES_H
#include "fanin.h"
#include "table_sizes.h"

enum who { WHO_NOBODY, WHO_EVERYONE, WHO_ROOT, WHO_OTHERS };

struct collective_side {
    uint8_t who;              /* enum who */
    uint8_t own;              /* only the rank's own block, not the whole message */
};

struct collective_row {
    const char *name;
    uint8_t contributors;     /* enum fanin_class */
    uint8_t divided;          /* the message has a block for each rank */
    uint8_t is_vector;        /* a v-form: some ranks may not know the sizes */
    struct collective_side brings, wants;
};

struct dtype_row {
    const char *name;
    uint32_t bytes;
    uint32_t widening;        /* bytes of f32 to those of an element where partials travel as f32; else 1 */
    uint32_t takes;           /* bitmap of enum fanin_op: computed by devices */
    uint32_t widens;          /* those of `takes` whose partials may travel as f32 */
};

struct status_row {
    const char *name, *meaning, *remedy;
};

extern const struct collective_row fanin_collectives[COLLECTIVE_COUNT]; /* by enum fanin_collective */
extern const struct dtype_row fanin_dtypes[DTYPE_COUNT];                /* by enum fanin_dtype */
extern const char *const fanin_op_names[OP_COUNT];                      /* by enum fanin_op */
extern const struct status_row fanin_statuses[STATUS_COUNT];            /* by enum fanin_status */

/* Bytes of the message in a segment of `chunk` bytes. `wide`: partials of sums travel as f32. */
static inline uint32_t fanin_segment_bytes(uint32_t chunk, int wide, uint32_t op, uint32_t dtype)
{
    return wide && fanin_dtypes[dtype].widens >> op & 1 ? chunk / fanin_dtypes[dtype].widening : chunk;
}
#endif
