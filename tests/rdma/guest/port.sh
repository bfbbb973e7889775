#!/usr/bin/busybox sh
# Take the interface of an rxe device of link.sh down, or up again: `port.sh down 0`.
set -e
/usr/sbin/ip link set v$2 "$1"
[ "$1" = down ] || /usr/bin/busybox sh /way.sh "$2"
