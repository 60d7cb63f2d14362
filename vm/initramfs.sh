# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# Builds the guest's root file system: busybox, the files asked for, the payload.
# Sourced by vm/run, never run.

# Where busybox is, if it is one that needs no libraries.
static_busybox() {
    local path
    path=$(command -v busybox) || die 125 "busybox is missing; install the package busybox-static, or run tools/setup"
    if ldd "$path" >/dev/null 2>&1; then
        die 125 "$path needs shared libraries; install the package busybox-static in its place"
    fi
    printf '%s\n' "$path"
}

# add_libraries ROOT PROGRAM: copies the shared libraries that PROGRAM needs, to
# the same paths in ROOT. Does nothing for a static program or a plain file.
add_libraries() {
    local root=$1 program=$2 list library
    [[ $(head -c 4 "$program" | tr -d '\0') == $'\x7fELF' ]] || return 0
    list=$(ldd "$program" 2>/dev/null) || return 0
    if [[ $list == *'not found'* ]]; then
        die 125 "$program needs libraries that this machine lacks: $(grep 'not found' <<<"$list" | tr -s '\t\n' ' ')"
    fi
    while read -r library; do
        [[ -e $root$library ]] && continue
        mkdir -p "$root${library%/*}"
        cp -L "$library" "$root$library"
    done < <(grep -oE '/[^ ]+' <<<"$list")
}

# add_file ROOT SRC:DST: copies a file, or a folder with all that it holds.
add_file() {
    local root=$1 from=${2%:*} to=${2##*:} program
    [[ $2 == *:* && -n $from && $to == /* ]] ||
        die 125 "--file takes SRC:DST with an absolute DST, and got '$2'"
    [[ -e $from ]] || die 125 "--file: there is no '$from' on this machine"
    mkdir -p "$root${to%/*}"
    if [[ -d $from ]]; then
        mkdir -p "$root$to"
        cp -a "$from/." "$root$to/"
        while read -r -d '' program; do
            add_libraries "$root" "$program"
        done < <(find "$from" -type f -perm -u+x -print0)
    else
        cp -L "$from" "$root$to"
        add_libraries "$root" "$from"
    fi
}

# quote WORD: WORD as one word of a POSIX shell.
quote() { printf "'%s'" "${1//\'/\'\\\'\'}"; }

# base_system ROOT KERNEL_DIR: what every guest has.
base_system() {
    local root=$1 kernel=$2 dir
    mkdir -p "$root"/{proc,sys,dev,run,tmp,root,etc,boot,vm,results,usr/{bin,sbin,lib,lib64,local/bin}}
    for dir in bin sbin lib lib64; do
        ln -s "usr/$dir" "$root/$dir"
    done
    cp "$(static_busybox)" "$root/usr/bin/busybox"
    # The other commands are linked by the guest itself; its first process needs this one.
    ln -s busybox "$root/usr/bin/sh"
    cp "$VM/guest-init" "$root/init"
    chmod 755 "$root/init"
    # libbpf reads the kernel's configuration here.
    cp "$kernel/config" "$root/boot/config-$(<"$kernel/version")"
    cat >"$root/etc/passwd" <<EOF
root:x:0:0:root:/root:/bin/sh
alice:x:1000:1000::/tmp:/bin/sh
bob:x:1001:1001::/tmp:/bin/sh
nobody:x:65534:65534::/nonexistent:/bin/sh
EOF
    printf '%s\n' root:x:0: alice:x:1000: bob:x:1001: nogroup:x:65534: >"$root/etc/group"
    printf '127.0.0.1 localhost guest\n' >"$root/etc/hosts"
}

# pack ROOT ARCHIVE: the same files give the same archive to the byte, because the
# guest's timing depends on it. Not compressed: the guest is slow at unpacking.
pack() {
    local root=$1 archive=$2
    find "$root" -exec touch -h -d @0 {} +
    (cd "$root" && find . -print0 | LC_ALL=C sort -z |
        cpio --null --create --format=newc --owner=0:0 --reproducible --quiet) >"$archive"
}
