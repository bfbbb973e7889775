/* Generated from fanin_wire by `make tables`: do not edit. */
#ifndef FANIN_GEOMETRY_H
#define FANIN_GEOMETRY_H

enum geometry {
    DEFAULT_CHUNK = 4096,
    DEFAULT_SLOTS = 256,
    MIN_SLOTS = 4,
    PART_BYTES = 524288,
    MAX_PARTS = 128,
};
#endif
