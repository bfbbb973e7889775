/* Digests of integers, equal on all ranks; not cryptographic. */
#ifndef FANIN_MIX_H
#define FANIN_MIX_H
#include <stdint.h>

static inline uint64_t mix(uint64_t digest, uint64_t number)
{
    digest = (digest ^ number) * 0x9e3779b97f4a7c15ull;
    return digest ^ digest >> 32;
}
#endif
