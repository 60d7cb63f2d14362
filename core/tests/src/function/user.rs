// SPDX-License-Identifier: GPL-2.0 OR MIT
//! user.h: whatever a function of a user's own answers, each member has a place, and those that it says nothing of have the
//! order of the file behind the others.

use super::*;
use proptest::prelude::*;

const NO_KEY: u64 = u64::MAX;
const KEYLESS: u64 = 1 << 62;

fn key() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..100u64,
        Just(KEYLESS - 1),
        Just(KEYLESS),
        Just(NO_KEY - 1),
        Just(NO_KEY),
        any::<u64>()
    ]
}

proptest! {
    #[test]
    fn each_member_has_a_place(keys in prop::collection::vec(key(), 1..32)) {
        let mut g = Group::new(FUNCTION_USER, keys.len());
        for (number, key) in keys.iter().enumerate() {
            let is_right = unsafe { core_user_give_key(g.role(number), *key) } != 0;
            prop_assert_eq!(is_right, *key < KEYLESS || *key == NO_KEY);
            g.publish(number, MS);
        }
        let mut places: Vec<usize> = (0..keys.len()).collect();
        places.sort_by_key(|number| g.members[*number].key);
        let expected = {
            let mut all: Vec<usize> = (0..keys.len()).collect();
            all.sort_by_key(|number| match keys[*number] {
                key if key < KEYLESS => (key, 0),
                _ => (KEYLESS, *number),
            });
            all
        };
        // Of those with one key the order is nobody's.
        let of = |order: &[usize]| -> Vec<u64> { order.iter().map(|number| g.members[*number].key).collect() };
        prop_assert_eq!(of(&places), of(&expected));
        // Nobody is due for it.
        prop_assert!(g.members.iter().all(|m| m.due_ns == NEVER_NS));
    }

    #[test]
    fn it_is_asked_when_it_wishes_and_not_after_it_was_too_slow(
        took in prop::collection::vec((0..400 * US, any::<u64>()), 1..60),
    ) {
        let mut g = Group::new(FUNCTION_USER, 1);
        let (mut now_ns, mut slowness) = (MS, 0_u32);
        for (took_ns, again_ns) in took {
            if g.function.is_off != 0 {
                prop_assert_eq!(unsafe { core_user_asks_at_ns(&*g.function, now_ns) }, NEVER_NS);
                return Ok(());
            }
            g.function.is_stale = 1;
            prop_assert_eq!(unsafe { core_user_asks_at_ns(&*g.function, now_ns) }, now_ns);
            now_ns += took_ns;
            unsafe { core_user_shown(&mut *g.function) };
            unsafe { core_user_answered(&mut *g.function, took_ns, again_ns, now_ns) };
            slowness = if took_ns > 200 * US { slowness + 8 } else { slowness.saturating_sub(1) };
            prop_assert_eq!(g.function.is_off != 0, slowness >= 16 * 8);
            if slowness < 16 * 8 {
                let at_ns = unsafe { core_user_asks_at_ns(&*g.function, now_ns) };
                let wished = match again_ns {
                    0 => NEVER_NS,
                    again_ns => now_ns.saturating_add(again_ns),
                };
                prop_assert_eq!(at_ns, wished);
            }
        }
    }
}

/// After how many answers, of which `slow` in `of` take too long, the first ones first, it is not asked any more.
fn off_after(slow: u32, of: u32) -> Option<u32> {
    let mut g = Group::new(FUNCTION_USER, 1);
    (0..10_000).find(|turn| {
        let took_ns = if turn % of < slow { 201 * US } else { US };
        unsafe { core_user_answered(&mut *g.function, took_ns, 0, MS) };
        g.function.is_off != 0
    })
}

#[test]
fn it_is_put_aside_when_it_is_slow_on_the_whole() {
    assert_eq!(off_after(1, 1), Some(15));
    // A good answer now and then does not save it.
    assert!(off_after(15, 16).is_some_and(|turn| turn < 20));
    assert!(off_after(1, 8).is_some());
    // A function that loses its CPU now and then, to a host or to firmware, is not to blame.
    assert_eq!(off_after(1, 16), None);
}
