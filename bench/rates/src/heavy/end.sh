# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
# Ends what of the heavy load is the kernel's, and would be left: run when nobody works on the disk any more, but the
# services are still there. $1: where the disk is. After a start that failed, some of it is not there.
root=$1
status=0
# The client first: it waits for a server that is gone.
if grep -q " $root/work/mounted nfs4 " /proc/mounts; then
    # Those that worked there may be about to end.
    tries=0
    until umount "$root/work/mounted"; do
        tries=$((tries + 1))
        [ $tries -le 50 ] || break
        usleep 100000
    done 2>/dev/null
    [ $tries -le 50 ] || status=1
fi
if [ -e /proc/fs/nfsd/threads ]; then
    echo 0 >/proc/fs/nfsd/threads || status=1
    chroot "$root" exportfs -ua || status=1
fi
exit $status
