/* Digests of whole numbers: not secret, but the same on all ranks. */
#ifndef FANIN_MIX_H
#define FANIN_MIX_H
#include <stdint.h>

/* One more number of a digest: a multiplication, and its upper half brought down. */
static inline uint64_t mix(uint64_t digest, uint64_t number)
{
    digest = (digest ^ number) * 0x9e3779b97f4a7c15ull;
    return digest ^ digest >> 32;
}
#endif
