#include "job/identity.h"
#include "mix.h"

void fanin_identify(struct fanin_job *job, enum purpose purpose, uint64_t number, uint64_t which)
{
    uint64_t digest = mix(mix(mix((uint64_t)job->jid << 32 | job->key, number), which), 0x6a6f62 + purpose);

    job->jid = (uint32_t)digest ? (uint32_t)digest : 1;
    job->key = (uint32_t)(digest >> 32);
}
