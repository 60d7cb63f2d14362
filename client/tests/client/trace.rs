// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's own events, through the memory of a recorder; and what it does with memory that is none.

use crate::process::isolated;
use consort::{trace, Domain, Next};
use consort_trace::{Record, Rings, What, RINGS_VARIABLE};

/// Records, as a recorder does that started this program.
fn recorder() -> Rings {
    let rings = Rings::new(0).unwrap();
    std::env::set_var(RINGS_VARIABLE, rings.variable());
    rings
}

fn taken(rings: &mut Rings) -> Vec<Record> {
    let mut all = Vec::new();
    rings.drain(consort::now_ns, |bytes| all.extend(Record::parse(bytes)));
    all.sort_by_key(|record| record.at_ns);
    all
}

fn values(records: &[Record]) -> Vec<(String, i64)> {
    let value = |record: &Record| match &record.what {
        What::Event { label, value } => Some((label.to_string(), *value)),
        _ => None,
    };
    records.iter().filter_map(value).collect()
}

isolated!(events_come_in_order_with_their_thread_and_time, {
    let mut rings = recorder();
    let before_ns = consort::now_ns();
    trace::event("decoder", "frame_ns", -4);
    trace::event("decoder", "queued", i64::MAX);
    let records = taken(&mut rings);
    assert_eq!(
        values(&records),
        [
            ("decoder/frame_ns".to_owned(), -4),
            ("decoder/queued".to_owned(), i64::MAX)
        ]
    );
    let (tid, pid) = unsafe { (libc::gettid(), libc::getpid()) };
    for record in &records {
        assert!((before_ns..=consort::now_ns()).contains(&record.at_ns));
        assert_eq!((record.tid, record.pid, record.cpu), (tid, pid, None));
    }
    assert_eq!(rings.lost(), 0);
    assert!(trace::is_recorded());
});

extern "C" {
    fn consort_trace_event(
        family: *const std::ffi::c_char,
        name: *const std::ffi::c_char,
        value: i64,
    );
    fn consort_trace_is_recorded() -> std::ffi::c_int;
}

isolated!(c_says_the_same_and_names_are_cut, {
    let mut rings = recorder();
    let long = std::ffi::CString::new("n".repeat(100)).unwrap();
    unsafe {
        assert_eq!(consort_trace_is_recorded(), 1);
        consort_trace_event(c"decoder".as_ptr(), c"frame_ns".as_ptr(), 1);
        consort_trace_event(c"decoder".as_ptr(), long.as_ptr(), 2);
        consort_trace_event(long.as_ptr(), c"frame_ns".as_ptr(), 3);
        consort_trace_event(std::ptr::null(), std::ptr::null(), 4);
    }
    let labels: Vec<String> = values(&taken(&mut rings))
        .into_iter()
        .map(|(label, _)| label)
        .collect();
    let expected = [
        "decoder/frame_ns".to_owned(),
        format!("decoder/{}", "n".repeat(24)),
        format!("{}/", "n".repeat(31)),
        "/".to_owned(),
    ];
    assert_eq!(labels, expected);
});

isolated!(what_a_ring_cannot_hold_is_counted, {
    let mut rings = recorder();
    for value in 0..5000 {
        trace::event("much", "value", value);
    }
    let values = values(&taken(&mut rings));
    assert_eq!(values.len(), 4096, "the first ones");
    assert_eq!(rings.lost(), 5000 - 4096);
    assert_eq!(values.last().map(|(_, value)| *value), Some(4095));
    trace::event("much", "value", 9);
    assert_eq!(taken(&mut rings).len(), 1, "there is room again");
});

isolated!(threads_have_rings_of_their_own_and_give_them_back, {
    let mut rings = recorder();
    // More than there are rings, one after the other.
    for value in 0..300 {
        std::thread::spawn(move || trace::event("thread", "value", value))
            .join()
            .unwrap();
    }
    assert_eq!((taken(&mut rings).len(), rings.lost()), (300, 0));
    // As much as one ring holds, if they should come one after the other.
    let together: Vec<_> = (0..8)
        .map(|thread| {
            std::thread::spawn(move || {
                for value in 0..500 {
                    trace::event("thread", "value", thread * 500 + value);
                }
            })
        })
        .collect();
    for thread in together {
        thread.join().unwrap();
    }
    let mut all: Vec<i64> = values(&taken(&mut rings))
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    all.sort_unstable();
    assert_eq!((all, rings.lost()), ((0..4000).collect(), 0));
});

isolated!(a_forked_child_writes_into_a_ring_of_its_own, {
    let mut rings = recorder();
    trace::event("who", "parent", 1);
    let child = unsafe { libc::fork() };
    if child == 0 {
        trace::event("who", "child", 2);
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    unsafe { libc::waitpid(child, &mut status, 0) };
    trace::event("who", "parent", 3);
    let records = taken(&mut rings);
    let of = |value: i64| {
        records
            .iter()
            .find(|it| matches!(it.what, What::Event { value: has, .. } if has == value))
    };
    assert_eq!(of(2).map(|it| (it.tid, it.pid)), Some((child, child)));
    assert_eq!((records.len(), of(3).is_some(), rings.lost()), (3, true, 0));
    rings.reclaim();
});

isolated!(polls_tell_when_due_events_begin_once_each, {
    let mut rings = recorder();
    let member = Domain::named("traced").join().unwrap();
    let due_ns = consort::now_ns() + 2_000_000;
    member.poll(Next::due(due_ns)).unwrap();
    let both = Next {
        due_ns,
        best_effort: Some((0, 0)),
    };
    member.poll(both).unwrap();
    let records = taken(&mut rings);
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].what, What::Due { due_ns });
    assert!(records[0].at_ns >= due_ns);
});

isolated!(a_loop_tells_of_each_due_event, {
    let mut rings = recorder();
    let mut events = consort::EventLoop::new().unwrap();
    let now_ns = consort::now_ns();
    for due_ns in [now_ns + 1000, now_ns + 1000, now_ns + 2000] {
        let event = events.event(|_| {});
        events.submit(event, consort::When::Due { due_ns }).unwrap();
    }
    events.run().unwrap();
    let due = |record: &Record| match record.what {
        What::Due { due_ns } => Some(due_ns - now_ns),
        _ => None,
    };
    let all: Vec<u64> = taken(&mut rings).iter().filter_map(due).collect();
    assert_eq!(all, [1000, 1000, 2000]);
});

isolated!(without_a_recorder_nothing_happens, {
    trace::event("nobody", "hears", 1);
    assert!(!trace::is_recorded());
});

isolated!(memory_that_is_not_a_recorders_is_left_alone, {
    // A file of zeros as long as it takes, but which its owner can make shorter; and numbers of no file.
    let file = std::env::temp_dir().join(format!("consort-trace-{}", std::process::id()));
    let open = std::fs::File::create(&file).unwrap();
    open.set_len(size_of::<consort_abi::Area>() as u64).unwrap();
    std::fs::remove_file(&file).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
    std::env::set_var(RINGS_VARIABLE, fd.to_string());
    trace::event("nobody", "hears", 1);
    assert!(!trace::is_recorded());
});

isolated!(the_end_of_a_recorder_ends_it, {
    let mut rings = recorder();
    trace::event("some", "value", 1);
    assert_eq!(taken(&mut rings).len(), 1);
    drop(rings);
    trace::event("some", "value", 2);
    assert!(!trace::is_recorded());
});
