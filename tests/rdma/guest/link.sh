#!/usr/bin/busybox sh
# A link within the guest with an rxe device at each end, for devices of Fanin: rxe1 has 10.9.0.1 to 10.9.0.3, rxe2 has
# 10.9.1.1 to 10.9.1.3. `link.sh no-rxe` makes no devices.
#
# Both ends are in one network namespace, since rxe is nowhere else. So that packets between them take the link, local
# addresses are looked up after the rules for it; and each end takes packets whose sender is an address of this machine.
set -e
IP() { /usr/sbin/ip "$@"; } # busybox has an ip as well
IP link add v0 type veth peer name v1
echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
for end in 0 1; do
    echo 0 > /proc/sys/net/ipv4/conf/v$end/rp_filter
    echo 1 > /proc/sys/net/ipv4/conf/v$end/accept_local
    IP link set v$end mtu 9000 up
    for host in 1 2 3; do IP address add 10.9.$end.$host/32 dev v$end; done
done
for end in 0 1; do
    other=$((1 - end))
    /usr/bin/busybox sh /way.sh $end
    IP rule add pref 5 iif lo from 10.9.$end.0/24 to 10.9.$other.0/24 lookup 10$end
done
IP rule add pref 10 lookup local
IP rule del pref 0
[ "$1" != no-rxe ] || exit 0
for end in 0 1; do
    rdma link add rxe$((end + 1)) type rxe netdev v$end
done
for end in 0 1; do # an address becomes a GID some time after it has been given
    for host in 1 2 3; do
        until /usr/bin/busybox grep -qs "ffff:0a09:0${end}0$host$" /sys/class/infiniband/rxe$((end + 1))/ports/1/gids/*; do
            /usr/bin/busybox usleep 10000
        done
    done
done
