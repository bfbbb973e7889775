/* Whether an object of Python is an argument that is known. */
#ifndef FANIN_ARGUMENTS_H
#define FANIN_ARGUMENTS_H
#include "fanin.h"

/* head: bytes of an object before what is its own. */
int fanin_same_argument(const struct fanin_argument *known, uint32_t head, uint64_t object);

/* Where the memory of an array is. */
uint64_t fanin_memory_of(uint64_t object, uint32_t head);
#endif
