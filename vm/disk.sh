# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# The guest's disk, and the kernel modules that it and others need.
# Sourced by vm/run and by those who make disks, never run; after lib.sh.

# What a guest needs for its disk. It is an SD card, because the emulator reads and writes one at once, while the guest
# stands still. What it does for other disks it does beside the guest, and ends it when the host gets to it: then two
# runs differ.
# shellcheck disable=SC2034  # read by the scripts that source this file
DISK_MODULES=(mmc_block sdhci_pci ext4)

# make_disk IMAGE SIZE [TREE]: an ext4 file system, empty or with all that the folder TREE holds. The same SIZE gives the
# same empty one to the byte.
make_disk() {
    # Where mkfs is, and not every login looks.
    local image=$1 size=$2 seed=e5f3c0d4-9f1d-4c57-8a52-2b8f6f0c7a11 contents=() PATH=$PATH:/usr/sbin:/sbin
    [[ -z ${3:-} ]] || contents=(-d "$3")
    need mkfs.ext4 e2fsprogs
    truncate -s "$size" "$image"
    SOURCE_DATE_EPOCH=0 E2FSPROGS_FAKE_TIME=1 mkfs.ext4 -q -F -U "$seed" \
        -E "hash_seed=$seed,root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0" ${contents[@]+"${contents[@]}"} "$image" >&2 ||
        die "$USAGE_STATUS" "no file system of $size could be made in $image; is it too small for what it is to hold?"
}

# disk_size BYTES: true for what an SD card can have.
disk_size() { (($1 >= 1 << 20 && ($1 & ($1 - 1)) == 0)); }

# add_modules ROOT KERNEL_DIR NAME...: puts modules into the guest's files, with a list of which to load one after the
# other. Each is loaded once.
add_modules() {
    local root=$1 from=$2/modules name file
    shift 2
    mkdir -p "$root/vm/modules"
    for name in "$@"; do
        while read -r file; do
            [[ -e $root/vm/modules/$file ]] && continue
            cp "$from/$file" "$root/vm/modules/$file"
            printf '%s\n' "$file" >>"$root/vm/modules/order"
        done <"$from/$name.order"
    done
}
