/* Memory can not be registered with more rights than the process has: EFAULT. Needs fanin0. */
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 8 };

static const char constant[PAGE] = {1};

static void refuses(const struct end *end, const void *address, size_t length, int access)
{
    REFUSES_NULL(ibv_reg_mr(end->pd, (void *)address, length, access), EFAULT);
}

static void takes(const struct end *end, const void *address, size_t length, int access)
{
    struct ibv_mr *mr = ibv_reg_mr(end->pd, (void *)address, length, access);

    CHECK(mr && !ibv_dereg_mr(mr));
}

int main(void)
{
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int changes[] = {IBV_ACCESS_LOCAL_WRITE, ALL, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
    char local[64];
    struct end end;

    open_end(&end, "fanin0");
    CHECK(memory != MAP_FAILED && !mprotect(memory + 2 * PAGE, PAGE, PROT_READ) &&
          !mprotect(memory + 4 * PAGE, PAGE, PROT_NONE) && !munmap(memory + 6 * PAGE, PAGE));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        refuses(&end, constant, sizeof constant, changes[i]);
        refuses(&end, "text", 5, changes[i]);
        refuses(&end, memory, 3 * PAGE, changes[i]);         /* the last page is read-only */
        refuses(&end, memory + 2 * PAGE, 2 * PAGE, changes[i]); /* the first page is read-only */
        refuses(&end, memory + 2 * PAGE - 1, 2, changes[i]);
        takes(&end, memory, 2 * PAGE, changes[i]);
        takes(&end, local, sizeof local, changes[i]);
    }
    for (int access = 0; access <= IBV_ACCESS_REMOTE_READ; access += IBV_ACCESS_REMOTE_READ) {
        takes(&end, constant, sizeof constant, access);      /* readable is enough */
        takes(&end, memory, 4 * PAGE, access);
        refuses(&end, memory + 4 * PAGE, 1, access);         /* no rights at all */
        refuses(&end, memory + 5 * PAGE, 3 * PAGE, access);  /* a hole */
        refuses(&end, memory + 6 * PAGE, 1, access);
        refuses(&end, NULL, 1, access);
    }
    REFUSES_NULL(ibv_reg_mr(end.pd, memory, SIZE_MAX, 0), EINVAL); /* it wraps */
    REFUSES_NULL(ibv_reg_mr(end.pd, memory, 0, 0), EINVAL);
    return 0;
}
