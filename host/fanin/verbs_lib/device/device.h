#ifndef FANIN_VERBS_DEVICE_H
#define FANIN_VERBS_DEVICE_H
#include "objects.h"

int our_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size);
int our_query_device_ex(struct ibv_context *context, const void *input, struct ibv_device_attr_ex *attr, size_t size);

/* list.c: of a device that need not be open. */
void our_note_address(struct ibv_device *device, uint32_t address);

/* async_events.c: report, once, a lost device, or an event of `element`. */
void our_report_loss(struct ibv_context *context);
void our_report(struct ibv_context *context, struct our_async_event *event, int type, void *element);
/* As our_errno; reports a loss. */
int our_outcome(struct ibv_context *context, enum fanin_status status);

/* The GID of an IPv4 address in host order, and back; 0: not such a GID. */
union ibv_gid our_gid_of(uint32_t ipv4);
uint32_t our_ipv4_of(const union ibv_gid *gid);

#endif
