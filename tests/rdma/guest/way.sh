#!/usr/bin/busybox sh
# The way from one end of the link of link.sh to the other, which an interface loses when it goes down: `way.sh 0`.
set -e
IP() { /usr/sbin/ip "$@"; } # busybox has an ip as well
end=$1 other=$((1 - $1))
IP route replace 10.9.$other.0/24 dev v$end table 10$end
address=$(cat /sys/class/net/v$other/address)
for host in 1 2 3; do IP neighbour replace 10.9.$other.$host lladdr "$address" dev v$end nud permanent; done
