# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
# Starts what the heavy load needs: a file system that comes over the network, and a login over it, both from this
# machine. Run by the load as first process of its own process and mount namespaces, so that all of it ends with them.
# $1: where the disk with the programs is.
set -eu
root=$1

fail() {
    echo "heavy load: $1" >&2
    exit 1
}

inside() { chroot "$root" "$@"; }

# The server asks nfsdcld which clients are to return, and has all others wait for 90 s if that one does not answer within a
# second: then it may only have begun.
start_server() {
    tries=0
    inside rpc.nfsd --no-nfs-version 3 --nfs-version 4.2 --host 127.0.0.1 8
    until [ "$(cat /proc/fs/nfsd/v4_end_grace)" = Y ]; do
        tries=$((tries + 1))
        [ $tries -le 20 ] || fail "the NFS server waits for clients of before, and there were none: nfsdcld did not say so"
        echo 0 >/proc/fs/nfsd/threads
        usleep 500000
        inside rpc.nfsd --no-nfs-version 3 --nfs-version 4.2 --host 127.0.0.1 8
    done
}

[ -e "$root/usr/sbin/sshd" ] ||
    fail "there is no $root/usr/sbin/sshd; expected the disk of bench/heavy/make-disk: start the guest with vm/run --disk"
for kind in nfsd nfs4; do
    grep -qw "$kind" /proc/filesystems ||
        fail "the kernel has no $kind; start the guest with vm/run --module nfsd --module nfsv4"
done

mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
# Here, where it is found when the processes have ended; and there, where they look.
mount -t nfsd nfsd /proc/fs/nfsd
mount --bind /proc/fs/nfsd "$root/proc/fs/nfsd"
mount -t rpc_pipefs sunrpc "$root/var/lib/nfs/rpc_pipefs"
mkdir -p "$root/run/sshd"
: >"$root/var/lib/nfs/etab"
: >"$root/var/lib/nfs/rmtab"

# No client has been here before, it says, and the server need not wait for any to return.
inside nfsdcld -p /var/lib/nfs/rpc_pipefs -s /run/nfsdcld
inside rpc.mountd --no-nfs-version 3
inside exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=0 127.0.0.1:/work/exported
start_server
inside mount.nfs 127.0.0.1:/ /work/mounted -o vers=4.2

inside ssh-keygen -q -t ed25519 -N '' -f /run/host_key
inside ssh-keygen -q -t ed25519 -N '' -f /run/key
inside /usr/sbin/sshd -f /dev/null -h /run/host_key -E /run/sshd.log -o ListenAddress=127.0.0.1 \
    -o AuthorizedKeysFile=/run/key.pub -o StrictModes=no -o UsePAM=no -o UseDNS=no -o PidFile=none
