# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# What the scripts of this folder share: the cache's place and how they speak.
# Sourced, never run.

CONSORT_CACHE=${CONSORT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/consort}
# Kernel lines that Consort is tested on: the oldest with what it needs, and the newest.
# shellcheck disable=SC2034  # read by the scripts that source this file
KERNELS=(6.18 7)

# Progress goes to stderr, so that a script's stdout can be its result.
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# Exit status of a bad command line, or of a missing tool.
USAGE_STATUS=2

# die STATUS MESSAGE...
die() {
    local status=$1
    shift
    printf '%s: error: %s\n' "${0##*/}" "$*" >&2
    exit "$status"
}

# need COMMAND PACKAGE: stops when COMMAND is not installed.
need() {
    command -v "$1" >/dev/null 2>&1 ||
        die "$USAGE_STATUS" "the command '$1' is missing; install the Debian package '$2', or run tools/setup"
}

# Kernel modules that guests can have, with those that each needs: a disk's controller and file system, and a network file
# system's server and client.
# shellcheck disable=SC2034  # read by the scripts that source this file
MODULES=(mmc_block sdhci_pci ext4 nfsd nfsv4)

kernel_dir() { printf '%s/kernels/%s\n' "$CONSORT_CACHE" "$1"; }

# has_modules NAME: true when kernel line NAME has all of MODULES; fetch-kernel writes their names last.
has_modules() {
    local names
    names=$(kernel_dir "$1")/modules/names
    [[ -s $names && $(<"$names") == "${MODULES[*]}" ]]
}

# check_kernel NAME: stops when NAME is not one of KERNELS.
check_kernel() {
    local known
    for known in "${KERNELS[@]}"; do
        [[ $known == "$1" ]] && return
    done
    die "$USAGE_STATUS" "no kernel line '$1'; it must be one of: ${KERNELS[*]}"
}

# Where fetch-qemu leaves its QEMU.
# shellcheck disable=SC2034  # read by the scripts that source this file
QEMU_DIR=$CONSORT_CACHE/qemu-10

# The words that start the QEMU unpacked in the folder $1, into the array qemu. It brings its own libraries, and so their loader; its
# BIOS is in a package of its own.
qemu_10() {
    local root=$1
    # shellcheck disable=SC2034  # read by the caller
    qemu=("$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu"
        "$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios")
}
