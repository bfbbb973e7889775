/* What is asked about a device: of the extended interface. */
#ifndef FANIN_VERBS_DEVICE_H
#define FANIN_VERBS_DEVICE_H
#include "objects.h"

int our_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size);
int our_query_device_ex(struct ibv_context *context, const void *input, struct ibv_device_attr_ex *attr, size_t size);

/* The GID of an IPv4 address in host order, and back; 0: it is no such GID. */
union ibv_gid our_gid_of(uint32_t ipv4);
uint32_t our_ipv4_of(const union ibv_gid *gid);

#endif
