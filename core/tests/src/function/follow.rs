// SPDX-License-Identifier: GPL-2.0 OR MIT
//! follow.h: a server is due after each submission, for its interval at most, and no longer than it has something to do.

use super::*;
use proptest::prelude::*;

const SERVER: usize = 0;
const CLIENT: usize = 1;

fn served(follow_ns: u64) -> Group {
    let mut g = Group::new(FUNCTION_FOLLOW, 2);
    g.role(SERVER).follows = CLIENT as u32 + 1;
    g.role(SERVER).follow_ns = follow_ns;
    g
}

fn submit(g: &mut Group, now_ns: u64) {
    let submissions = g.role(CLIENT).submissions + 2;
    assert_ne!(
        unsafe { core_function_tell(g.role(CLIENT), submissions, 0, 0, now_ns) },
        0
    );
    g.publish(SERVER, now_ns);
}

proptest! {
    #[test]
    fn a_server_is_due_from_a_submission_on(
        follow_ns in 100 * US..10 * MS, at_ns in MS..1000 * MS, wakes_ns in 0..20 * MS, runs_ns in 1..20 * MS,
    ) {
        let mut g = served(follow_ns);
        submit(&mut g, at_ns);
        prop_assert_eq!(g.member(SERVER).due_ns, at_ns);
        let woke_ns = at_ns + wakes_ns;
        g.wake(SERVER, woke_ns);
        prop_assert_eq!(g.is_on(SERVER, woke_ns), wakes_ns < follow_ns);
        if !g.is_on(SERVER, woke_ns) {
            prop_assert_eq!(g.missed(SERVER), 1);
            return Ok(());
        }
        unsafe { core_function_begin(g.member(SERVER), woke_ns, woke_ns) };
        let now_ns = woke_ns + runs_ns;
        g.ran(SERVER, woke_ns, now_ns);
        // It runs for its interval, however late it woke, and no longer before others.
        prop_assert_eq!(g.is_on(SERVER, now_ns), runs_ns < follow_ns);
        g.sleep(SERVER, now_ns);
        g.publish(SERVER, now_ns);
        prop_assert!(g.member(SERVER).due_ns > now_ns || !g.is_on(SERVER, now_ns));
        unsafe { core_role_advance(g.role(SERVER), now_ns + 2 * follow_ns) };
        prop_assert_eq!((g.role(SERVER).kept, g.missed(SERVER)), (1, 0));
    }

    /// However many submissions there are: the next one begins anew, and its interval is no longer.
    #[test]
    fn submissions_do_not_add_up(
        follow_ns in 100 * US..10 * MS, gaps in prop::collection::vec((1..10 * MS, any::<bool>()), 1..50),
    ) {
        let mut g = served(follow_ns);
        let mut now_ns = MS;
        g.wake(SERVER, now_ns);
        for (gap_ns, runs) in gaps {
            submit(&mut g, now_ns);
            if runs {
                unsafe { core_function_begin(g.member(SERVER), now_ns, now_ns) };
            }
            prop_assert!(g.role(SERVER).until_ns <= now_ns + follow_ns);
            now_ns += gap_ns;
            g.publish(SERVER, now_ns);
            prop_assert_eq!(g.is_on(SERVER, now_ns), gap_ns < follow_ns);
        }
    }
}

#[test]
fn a_client_that_sleeps_in_a_submission_waits_for_its_server() {
    let mut g = served(MS);
    g.wake(CLIENT, MS);
    assert_eq!(
        unsafe { core_function_tell(g.role(CLIENT), 1, 0, 0, MS) },
        0
    );
    g.publish(SERVER, MS);
    assert_eq!(g.member(SERVER).due_ns, NEVER_NS);
    g.sleep(CLIENT, 2 * MS);
    g.publish(SERVER, 2 * MS);
    assert_eq!(g.member(SERVER).due_ns, 2 * MS);
}
