#!/bin/sh
# boot_systemd.sh WORK: systemd as process 1 of a machine of its own, made of namespaces: own processes, mounts, host name,
# IPC, control groups and network. Its root is this machine's, with all changes kept in memory. WORK/units has its units,
# all of them; WORK/root is laid over the root; WORK/sources is bound to /opt/fanin-sources, WORK/python to /opt/python.
set -eu
work=$1
layers=$work/layers
mount -t tmpfs tmpfs "$layers"
mkdir "$layers/changed" "$layers/internal" "$layers/root"
cp -a "$work/root/." "$layers/changed"
mount -t overlay -o "lowerdir=/,upperdir=$layers/changed,workdir=$layers/internal" overlay "$layers/root"
cd "$layers/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir -p run/units opt/fanin-sources opt/python
mount --bind "$work/units" run/units
mount --bind "$(readlink -f "$work/sources")" opt/fanin-sources
mount --bind "$(readlink -f "$work/python")" opt/python
ip link set lo up
pivot_root . mnt
umount -l mnt
export container=fanin SYSTEMD_UNIT_PATH=/run/units SYSTEMD_COLORS=0
exec /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=false
