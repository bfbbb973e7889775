#include "tables.h"

static const struct status_row *row_of(enum fanin_status status)
{
    static const struct status_row unknown = {"UNKNOWN", "This version does not know the status.",
                                              "Use a libfanin that is as new as the device."};

    return (uint32_t)status < STATUS_COUNT ? &fanin_statuses[status] : &unknown;
}

const char *fanin_status_name(enum fanin_status status)
{
    return row_of(status)->name;
}

const char *fanin_status_meaning(enum fanin_status status)
{
    return row_of(status)->meaning;
}

const char *fanin_status_remedy(enum fanin_status status)
{
    return row_of(status)->remedy;
}

int fanin_is_supported(uint32_t op, uint32_t dtype)
{
    return op < 32 && dtype < DTYPE_COUNT && fanin_dtypes[dtype].takes >> op & 1;
}

uint32_t fanin_dtype_bytes(uint32_t dtype)
{
    return dtype < DTYPE_COUNT ? fanin_dtypes[dtype].bytes : 0;
}

const char *fanin_dtype_name(uint32_t dtype)
{
    return dtype < DTYPE_COUNT && fanin_dtypes[dtype].name ? fanin_dtypes[dtype].name : "";
}

const char *fanin_op_name(uint32_t op)
{
    return op < OP_COUNT && fanin_op_names[op] ? fanin_op_names[op] : "";
}
