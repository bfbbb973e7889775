#!/bin/sh
# boot_host.sh WORK NAME PYTHON: a host NAME for `rig.py`, in the network namespace of its caller. Its root is this
# machine's, with all changes kept in memory; it shares no file with another host. PYTHON is bound to /opt/fanin.
set -eu
work=$1 name=$2 python=$3
mount -t tmpfs tmpfs "$work/layers"
mkdir "$work/layers/changed" "$work/layers/internal" "$work/layers/root"
mount -t overlay -o "lowerdir=/,upperdir=$work/layers/changed,workdir=$work/layers/internal" overlay "$work/layers/root"
cd "$work/layers/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs run
mkdir -p opt/fanin etc/systemd/system
mount --bind "$python" opt/fanin
cp "$work/hosts" etc/hosts
cp "$work"/units/* etc/systemd/system/
cp "$work/systemctl" usr/local/bin/systemctl
pivot_root . mnt
umount -l mnt
hostname "$name"
echo ready
exec sleep infinity
