/* A rank takes a NIC of its host by its local rank. If a rank has none, all get contexts that refuse groups, since
 * without a context UCC ends a program whose UCC_TLS names this layer. */
#include "context.h"
#include "agreement.h"
#include "log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct sharp_coll_config sharp_coll_default_config = {.ib_dev_list = "", .user_progress_num_polls = 0};

/* Whether a word of UCC_TL_SHARP_DEVICES names the NIC: its socket, or that file's name without the ending. */
static int names(const char *word, size_t length, const char *socket)
{
    const char *name = strrchr(socket, '/');

    name = name ? name + 1 : socket;
    return (strlen(socket) == length && !memcmp(socket, word, length)) ||
           (strcspn(name, ".") == length && !memcmp(name, word, length));
}

static int is_listed(const char *list, const char *socket)
{
    size_t length;

    if (!list || !*list)
        return 1;
    for (const char *word = list; *word; word += length + (word[length] == ',')) {
        length = strcspn(word, ",");
        if (length && names(word, length, socket))
            return 1;
    }
    return 0;
}

static int find_nic(const struct sharp_coll_init_spec *spec, struct fanin_nic *nic)
{
    const char *list = spec->config.ib_dev_list;
    struct fanin_nic nics[FANIN_MAX_NICS];
    uint32_t elsewhere, count = fanin_find_nics(nics, &elsewhere), listed = 0;
    char fabrics[300];

    for (uint32_t i = 0; i < count; i++)
        if (is_listed(list, nics[i].socket))
            nics[listed++] = nics[i];
    if (count && !listed)
        sharp_say("NO_DEVICE: UCC_TL_SHARP_DEVICES=%.100s names none of the %u NICs of this host, of which the first "
                  "is %s: give names or sockets, separated by ','", list, count, nics[0].socket);
    fanin_name_fabrics(fabrics, sizeof fabrics);
    if (!count && *fabrics)
        sharp_say("NO_DEVICE: no fabric 'default' is up here; up are %s", fabrics);
    if (listed)
        *nic = nics[(uint32_t)spec->world_local_rank % listed];
    return listed > 0;
}

static enum fanin_status open_nic(const struct sharp_coll_init_spec *spec, struct sharp_coll_context *context)
{
    enum fanin_status status;

    if (!context)
        return FANIN_NO_RESOURCES;
    if (!find_nic(spec, &context->nic))
        return FANIN_NO_DEVICE;
    status = fanin_open(context->nic.socket, &context->device);
    if (status == FANIN_SUCCESS)
        context->nic.place.address = fanin_limits(context->device)->address; /* the device's own */
    return status;
}

static int read_setting(void)
{
    const char *text = getenv("FANIN_SHARP_FAILURE");

    if (text && *text && strcmp(text, "abort") && strcmp(text, "wait"))
        sharp_say("BAD_SETTING: FANIN_SHARP_FAILURE=%.40s is taken as abort: write abort, or wait", text);
    return text && !strcmp(text, "wait");
}

int sharp_coll_init(struct sharp_coll_init_spec *spec, struct sharp_coll_context **made)
{
    struct sharp_coll_context *context;
    struct ranks world = {.out_of_band = &spec->oob_colls, .oob_ctx = spec->oob_ctx, .rank = spec->world_rank,
                          .size = spec->world_size};
    enum fanin_status status;

    if (world.size < 1 || world.rank < 0 || world.rank >= world.size || spec->world_local_rank < 0 ||
        !world.out_of_band->gather || !world.out_of_band->bcast) {
        sharp_say("INVALID_REQUEST: sharp_coll_init: rank %d of %d, local rank %d, or no functions to exchange by: "
                  "pass what UCC passes", world.rank, world.size, spec->world_local_rank);
        return SHARP_COLL_EINVAL;
    }
    context = calloc(1, sizeof *context);
    status = open_nic(spec, context);
    status = sharp_agree(&world, status, "UCC goes another way: opening the NIC of a rank", "");
    if (context && status != FANIN_SUCCESS) {
        fanin_close(context->device);
        context->device = NULL;
    }
    if (!context || status == FANIN_ABORTED || status == FANIN_VERSION_MISMATCH) { /* other ranks may have decided
                                                                                    * differently */
        free(context);
        return sharp_code_of(status);
    }
    context->lacking = status;
    context->out_of_band = spec->oob_colls;
    context->waits_after_failure = read_setting();
    sharp_own(context);
    *made = context;
    return SHARP_COLL_SUCCESS;
}

int sharp_coll_finalize(struct sharp_coll_context *context)
{
    if (sharp_is_inherited(context))
        fanin_close_inherited(context->device);
    else
        fanin_close(context->device);
    free(context);
    return SHARP_COLL_SUCCESS;
}

int sharp_coll_progress(struct sharp_coll_context *context)
{
    if (!sharp_is_inherited(context))
        fanin_progress();
    return 0;
}

int sharp_coll_reg_mr(struct sharp_coll_context *context, void *memory, size_t size, void **registration)
{
    (void)memory, (void)size;
    *registration = context;
    return SHARP_COLL_SUCCESS;
}

int sharp_coll_dereg_mr(struct sharp_coll_context *context, void *registration)
{
    (void)context, (void)registration;
    return SHARP_COLL_SUCCESS;
}
