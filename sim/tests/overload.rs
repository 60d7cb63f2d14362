// SPDX-License-Identifier: MIT OR Apache-2.0
//! Domains whose members want far more than there is, within the contract and beside it: nobody else pays.

use crate::common::summaries::{row, share, summary};

/// Members that are always due, and need many times what there is, in a cgroup of their own.
fn always_due(cpus: u32, members: u32, good: &str) -> String {
    format!(
        r#"{{"global": {{"duration": 4, "warmup": 1}}, "machine": {{"cpus": {cpus}}},
            "cgroups": {{"/evil": {{"weight": 100}}, "/good": {{"weight": 100}}}},
            "tasks": {{"good": {{"taskgroup": "/good", {good}}},
                       "evil": {{"instance": {members}, "taskgroup": "/evil",
                                "phases": {{"a": {{"loop": 1, "join": "many"}},
                                            "b": {{"loop": -1, "poll": {{"due": "1ms"}}, "run": 300}}}}}}}}}}"#
    )
}

#[test]
fn due_events_without_end_leave_another_cgroup_its_cpu() {
    for (cpus, members) in [(2, 20), (4, 100)] {
        for good in [
            r#""hog": true"#,
            r#""hog": true, "reserve": {"class": "guaranteed", "rate": 0.2, "period": "20ms"}"#,
        ] {
            let summary = summary(&always_due(cpus, members, good), 1);
            let percent = share(&summary, "good");
            assert!(
                percent > 97.0,
                "{cpus} CPUs, {good}: {percent} of 100 % that it can use"
            );
        }
    }
}

/// A slice for each of hundreds of members in a row, with nobody due, is not what a reserved task waits for.
#[test]
fn many_members_do_not_make_a_reserved_task_wait() {
    let text = r#"{"global": {"duration": 5, "warmup": 1}, "machine": {"cpus": 1},
        "tasks": {"reserved": {"run": "3ms", "timer": {"ref": "unique", "period": "20ms"},
                               "reserve": {"class": "guaranteed", "rate": 0.2, "period": "20ms"}},
                  "many": {"instance": 200, "phases": {"a": {"loop": 1, "join": "many"},
                           "b": {"loop": -1, "poll": {"due": "never", "priority": 0}, "run": 300}}}}}"#;
    let summary = summary(text, 1);
    let reserved = row(&summary, "reserved");
    assert!(reserved.share_percent > 14.5, "{}", reserved.share_percent);
    // Half its period: a slice for each of them in a row was 100 ms.
    assert!(reserved.wait_max_ms < 10.0, "{}", reserved.wait_max_ms);
}

/// Whoever wakes beside a member has it charged up to then: what was due of that counts, too.
#[test]
fn wakeups_beside_it_give_an_always_due_member_no_more() {
    for sleep in ["900us", "3300us", "6ms"] {
        let text = format!(
            r#"{{"global": {{"duration": 6, "warmup": 1}}, "machine": {{"cpus": 1}}, "domains": {{"films": {{"event": "2ms"}}}},
                "tasks": {{"liar": {{"polite_liar": {{"domain": "films", "work": "1.9ms"}}}},
                           "honest": {{"phases": {{"a": {{"loop": 1, "join": "films"}},
                               "b": {{"loop": -1, "poll": {{"due": "never", "priority": 0, "key": 1}}, "run": "1ms"}}}}}},
                           "tick": {{"priority": -15, "loop": -1, "run": "10us", "sleep": "{sleep}"}}}}}}"#
        );
        let summary = summary(&text, 1);
        let honest = share(&summary, "honest");
        assert!(
            honest > 45.0,
            "beside one that wakes each {sleep}: {honest}"
        );
    }
}

/// However little a domain has, a member that is due for more than its part of that has no more than the others.
#[test]
fn a_member_that_is_due_for_too_much_leaves_the_others_their_part() {
    for (cpus, weight, hogs) in [(1, 50, 2), (1, 10, 1), (4, 10, 7)] {
        let text = format!(
            r#"{{"global": {{"duration": 9, "warmup": 3}}, "machine": {{"cpus": {cpus}}}, "domains": {{"films": {{"event": "2ms"}}}},
                "cgroups": {{"/user": {{"weight": {weight}}}}},
                "tasks": {{"due": {{"taskgroup": "/user", "phases": {{"a": {{"join": "films"}},
                                    "b": {{"loop": -1, "run": "1667us", "poll": "11600us"}}}}}},
                           "other": {{"instance": 3, "taskgroup": "/user", "phases": {{"a": {{"join": "films"}},
                                      "b": {{"loop": -1, "run": "994us", "poll": {{"due": "never", "priority": 0}}}}}}}},
                           "hog": {{"instance": {hogs}, "hog": true}}}}}}"#
        );
        let summary = summary(&text, 1);
        let (due, others) = (share(&summary, "due"), share(&summary, "other"));
        assert!(
            due < 1.25 * others / 3.0,
            "{cpus} CPUs, weight {weight}: {due} %, three others {others}"
        );
    }
}
