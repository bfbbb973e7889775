#ifndef FANIN_VERBS_REGISTRY_H
#define FANIN_VERBS_REGISTRY_H
#include <stdint.h>

enum our_kind { OUR_PDS, OUR_CQS, OUR_MRS, OUR_KINDS };

struct our_known {
    struct our_known *next;
    uint32_t number;
};

/* A number that no object of this process has had. */
uint32_t our_new_number(void);
void our_know(enum our_kind kind, struct our_known *known, uint32_t number);
void our_unknow(enum our_kind kind, struct our_known *known);

/* Objects stay while the lock is held. */
void our_lock_known(void);
void our_unlock_known(void);
struct our_known *our_find_known(enum our_kind kind, uint32_t number);
/* The next one with the same number, since keys are unique only within a device. */
struct our_known *our_find_next_known(const struct our_known *found);

#endif
