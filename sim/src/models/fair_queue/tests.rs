// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queue by itself: shares, sleepers, slices, sums.

use super::*;

const SLICE_NS: u64 = 700_000;
const TICK_NS: u64 = 4_000_000;

fn queue(tasks: u32) -> FairQueue<u32> {
    let mut queue = FairQueue::new(TICK_NS);
    for task in 0..tasks {
        queue.bring(task, Entity::new(WEIGHT_ONE, SLICE_NS));
    }
    queue
}

/// Runs who is picked, a slice at a time, for `slices` slices; returns the CPU time of each task.
fn run(queue: &mut FairQueue<u32>, tasks: u32, slices: usize) -> Vec<u64> {
    let mut ran_ns = vec![0; tasks as usize];
    for _ in 0..slices {
        let task = queue.pick().expect("somebody waits");
        let slice_ns = queue.slice_left_ns();
        assert!(queue.charge(slice_ns), "a slice ends when it is used up");
        ran_ns[task as usize] += slice_ns;
    }
    ran_ns
}

#[test]
fn equal_tasks_take_turns() {
    let mut queue = queue(3);
    for task in 0..3 {
        queue.enqueue(task);
    }
    let ran_ns = run(&mut queue, 3, 3000);
    let spread = ran_ns.iter().max().unwrap() - ran_ns.iter().min().unwrap();
    assert!(spread <= SLICE_NS, "{ran_ns:?}");
}

#[test]
fn cpu_time_follows_weights() {
    let mut queue = queue(2);
    queue.set_weight(1, 3 * WEIGHT_ONE);
    queue.enqueue(0);
    queue.enqueue(1);
    let ran_ns = run(&mut queue, 2, 4000);
    let ratio = ran_ns[1] as f64 / ran_ns[0] as f64;
    assert!((2.99..3.01).contains(&ratio), "{ratio}");
}

#[test]
fn a_weight_that_changes_while_running_holds_from_then_on() {
    let mut queue = queue(2);
    queue.enqueue(0);
    queue.enqueue(1);
    run(&mut queue, 2, 100);
    queue.set_weight(0, WEIGHT_ONE / 2);
    queue.set_weight(1, 2 * WEIGHT_ONE);
    let ran_ns = run(&mut queue, 2, 5000);
    let ratio = ran_ns[1] as f64 / ran_ns[0] as f64;
    assert!((3.98..4.02).contains(&ratio), "{ratio}");
}

#[test]
fn a_sleeper_gets_no_more_than_its_share_for_having_slept() {
    let mut queue = queue(2);
    queue.enqueue(0);
    run(&mut queue, 2, 10_000);
    queue.enqueue(1);
    let ran_ns = run(&mut queue, 2, 100);
    assert!(ran_ns[0].abs_diff(ran_ns[1]) <= 2 * SLICE_NS, "{ran_ns:?}");
}

#[test]
fn a_newcomer_waits_for_the_slice_to_end_and_one_that_has_time_coming_does_not() {
    let mut queue = queue(2);
    queue.enqueue(0);
    assert_eq!(queue.pick(), Some(0));
    queue.charge(SLICE_NS / 8);
    queue.enqueue(1);
    assert!(!queue.preempts(1), "it has no lag");
    queue.charge(SLICE_NS);
    queue.put_back();
    assert_eq!(queue.pick(), Some(1), "it waited while the other ran");
    queue.charge(1000);
    queue.dequeue(1, true);
    assert_eq!(queue.pick(), Some(0));
    queue.charge(SLICE_NS / 8);
    queue.enqueue(1);
    assert!(queue.preempts(1), "it slept with time coming to it");
}

#[test]
fn one_that_sleeps_ahead_of_its_share_stays_queued_until_others_have_caught_up() {
    let mut queue = queue(3);
    queue.enqueue(0);
    queue.enqueue(1);
    assert_eq!(queue.pick(), Some(0));
    queue.charge(SLICE_NS);
    queue.dequeue(0, true);
    assert_eq!(queue.entity(0).place, Place::Delayed);
    assert_eq!((queue.runnable, queue.waiting().count()), (1, 1));
    let ran_ns = run(&mut queue, 3, 3);
    assert_eq!(ran_ns[0], 0, "it sleeps");
    assert_eq!(queue.entity(0).place, Place::Off);
    queue.enqueue(0);
    assert_eq!(queue.runnable, 2);
}

#[test]
fn who_yields_lets_the_other_run_first() {
    let mut queue = queue(2);
    queue.enqueue(0);
    queue.enqueue(1);
    let first = queue.pick().unwrap();
    queue.charge(1000);
    queue.yield_current();
    queue.put_back();
    assert_eq!(queue.pick(), Some(1 - first));
}

#[test]
fn the_sums_are_empty_when_the_queue_is() {
    let mut queue = queue(4);
    for task in 0..4 {
        queue.enqueue(task);
    }
    run(&mut queue, 4, 77);
    for task in 0..4 {
        queue.dequeue(task, task % 2 == 0);
    }
    for task in 0..4 {
        queue.dequeue(task, false);
    }
    assert_eq!((queue.weight_sum, queue.weighted_vruntime_sum), (0, 0));
    assert_eq!((queue.runnable, queue.pick()), (0, None));
}

/// By hand: with weights 1024 and 2048, virtual time of the second passes half as fast, so its deadline is at half a slice.
#[test]
fn deadlines_are_slices_by_weight() {
    let mut queue = queue(2);
    queue.set_weight(1, 2 * WEIGHT_ONE);
    for task in 0..2 {
        queue.update(task, |entity| entity.fresh = false);
        queue.enqueue(task);
    }
    assert_eq!(
        (queue.entity(0).deadline, queue.entity(1).deadline),
        (700_000, 350_000)
    );
    assert_eq!(queue.pick(), Some(1));
    queue.charge(SLICE_NS);
    // It is at 350 000, the other at 0, the average at (2048 * 350 000) / 3072.
    assert_eq!(queue.average(), 233_333);
    queue.put_back();
    assert_eq!(queue.pick(), Some(0));
}

/// A slice of 0.1 ms: the deadline is near, so it is picked first, and again after each slice while it is not ahead.
#[test]
fn who_asks_for_little_runs_soon_and_has_no_more() {
    let mut queue = queue(2);
    queue.set_slice(1, 100_000);
    for task in 0..2 {
        queue.update(task, |entity| entity.fresh = false);
        queue.enqueue(task);
    }
    assert_eq!(queue.slice_min_ns(), Some(100_000));
    assert_eq!(
        queue.pick(),
        Some(1),
        "due at 100 000, the other at 700 000"
    );
    queue.charge(100_000);
    assert_eq!(queue.pick(), Some(0), "the average is 50 000: it is ahead");
    // Protected for the shorter slice only.
    assert_eq!(queue.entity(0).protected_until, 100_000);
    queue.charge(99_999);
    assert!(!queue.is_unprotected());
    queue.charge(1);
    assert!(queue.is_unprotected());
    assert_eq!(
        queue.pick(),
        Some(1),
        "both are at 100 000, and it is due at 200 000"
    );
    let ran_ns = run(&mut queue, 2, 4000);
    let ratio = ran_ns[0] as f64 / ran_ns[1] as f64;
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}

#[test]
fn who_wakes_with_a_shorter_slice_is_not_kept_off_by_protection() {
    let preempts = |slice_ns| {
        let mut queue = queue(2);
        queue.set_slice(1, slice_ns);
        queue.enqueue(0);
        assert_eq!(queue.pick(), Some(0));
        queue.charge(SLICE_NS / 8);
        queue.enqueue(1);
        queue.preempts(1)
    };
    assert!(preempts(SLICE_NS / 10) && !preempts(SLICE_NS) && !preempts(2 * SLICE_NS));
}
