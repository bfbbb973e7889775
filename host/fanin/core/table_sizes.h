/* Generated from fanin_wire by `make tables`: do not edit. */
#ifndef FANIN_TABLE_SIZES_H
#define FANIN_TABLE_SIZES_H

enum table_sizes {
    COLLECTIVE_COUNT = 11,
    DTYPE_COUNT = 21,
    OP_COUNT = 14,
    STATUS_COUNT = 24,
};
#endif
