#!/usr/bin/busybox sh
# A root file system that is among the files of a guest shows more of those files, under the same paths:
# `root.sh FILES ROOT FOLDER...`, FILES before each FOLDER, and before it in ROOT.
set -e
B=/usr/bin/busybox
files=$1 root=$2
shift 2
$B mount -t tmpfs tmpfs "$root/tmp"
for folder in "$@"; do
    $B mkdir -p "$root$folder"
    $B mount -o rbind "$files$folder" "$root$folder"
done
