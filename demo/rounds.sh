#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The demo's rounds, one after the other: runs in the guest (busybox's sh) as on a real machine.
# Environment: PLAYERS, SECONDS_EACH, ROUNDS (names below), CLIP, START_STEP (seconds between
# players' places in the film), RESULTS (a folder, made here), CPU_MASK (the CPUs, hexadecimal),
# CPU_MASKS (each of them).
# Speaks in lines "demo: ..."; exit status 1 when a round failed.
set -u
PLAY=${PLAY:-consort-play}
CONSORT=${CONSORT:-consort}
# Time for all players to start and to decode ahead before the first frame is due.
LEAD_S=4

say() { echo "demo: $*"; }
fail() {
    say "error: $*"
    exit 1
}

# Nanoseconds of CLOCK_MONOTONIC, to the hundredth of a second.
now_ns() { awk '{ printf "%.0f\n", $1 * 1e9 }' /proc/uptime; }

switches() { awk '$1 == "ctxt" { print $2 }' /proc/stat; }

start_scheduler() {
    "$CONSORT" serve >"$1/serve.log" 2>&1 &
    server=$!
    tries=120 # the kernel takes some seconds to verify the scheduler
    until "$CONSORT" status >"$1/status-before" 2>/dev/null; do
        tries=$((tries - 1))
        if [ $tries -eq 0 ] || ! kill -0 $server 2>/dev/null; then
            cat "$1/serve.log"
            fail "the scheduler does not start; its last words are above"
        fi
        sleep 0.5
    done
}

# A scheduler that was thrown out leaves the players running and the figures plausible.
stop_scheduler() {
    [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] || fail "the scheduler was thrown out; see $1/serve.log"
    "$CONSORT" status --json >"$1/status.json" || fail "the scheduler does not answer any more; see $1/serve.log"
    kill $server
    wait $server
    server=
}

# play_processes FOLDER ORIGIN_NS OPTION...: one process for each player.
play_processes() {
    folder=$1 origin=$2
    shift 2
    i=0
    pids=
    while [ $i -lt "$PLAYERS" ]; do
        taskset "${CPU_MASK:-1}" "$PLAY" "$@" --output none --loop --duration "$SECONDS_EACH" --start-at "$origin" \
            --start "$(awk "BEGIN { print $i * $START_STEP }")" \
            --log "$folder/player-$i.json" "$CLIP" >"$folder/player-$i.out" 2>&1 &
        pids="$pids $!"
        i=$((i + 1))
    done
    for pid in $pids; do
        wait "$pid" || fail "a player failed: $(cat "$folder"/player-*.out)"
    done
}

# play_one_process FOLDER ORIGIN_NS: one process for each CPU, which plays its part of all: no scheduler can do better.
play_one_process() {
    number=0 left=$PLAYERS first=0
    for mask in ${CPU_MASKS:-1}; do number=$((number + 1)); done
    pids=
    for mask in ${CPU_MASKS:-1}; do
        each=$(((left + number - 1) / number))
        [ $each -gt 0 ] || break
        taskset "$mask" "$PLAY" --no-consort --output none --loop --duration "$SECONDS_EACH" --start-at "$2" \
            --start "$(awk "BEGIN { print $first * $START_STEP }")" --players $each \
            --start-step "$START_STEP" --log "$1/player-$first.json" "$CLIP" >"$1/player-$first.out" 2>&1 &
        pids="$pids $!"
        first=$((first + each)) left=$((left - each)) number=$((number - 1))
    done
    for pid in $pids; do
        wait "$pid" || fail "the player failed: $(cat "$1"/player-*.out)"
    done
}

# Counts the system's context switches while frames are due: FOLDER ORIGIN_NS.
count_switches() {
    wait_ns=$(($2 - $(now_ns)))
    sleep "$(awk "BEGIN { print $wait_ns / 1e9 }")"
    before=$(switches)
    sleep "$SECONDS_EACH"
    after=$(switches)
    awk "BEGIN { print ($after - $before) / $SECONDS_EACH }" >"$1/switches-per-s"
}

run_round() {
    name=$1
    folder=$RESULTS/$name
    server=
    mkdir -p "$folder"
    case $name in fair | coop) start_scheduler "$folder" ;; esac
    say "round $name: $PLAYERS players, $SECONDS_EACH s"
    origin=$(($(now_ns) + LEAD_S * 1000000000))
    count_switches "$folder" "$origin" &
    counter=$!
    case $name in
    ideal) play_one_process "$folder" "$origin" ;;
    eevdf | fair) play_processes "$folder" "$origin" --no-consort ;;
    coop) play_processes "$folder" "$origin" --domain demo ;;
    user) CONSORT_HOST=user play_processes "$folder" "$origin" --domain demo ;;
    *) fail "no round '$name'" ;;
    esac
    wait $counter
    [ -z "$server" ] || stop_scheduler "$folder"
    say "round $name: done"
}

trap '[ -z "${server:-}" ] || kill $server' EXIT
for round in $ROUNDS; do
    run_round "$round"
done
