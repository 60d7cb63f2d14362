// SPDX-License-Identifier: GPL-2.0 OR MIT
//! heap.h against an ordered set, its shape checked after every operation.

use crate::{check, policy::*};
use proptest::prelude::*;
use std::collections::BTreeSet;

const LINKS: usize = 64;

/// Keys are relative to `base`, so that they wrap: the model orders what is added to it.
type Key = (i64, u64, u32, usize);

struct Heaped {
    heap: heap,
    links: Vec<heap_link>,
    keys: Vec<Option<Key>>,
    model: BTreeSet<Key>,
    base: u64,
}

impl Heaped {
    fn new(base: u64) -> Self {
        Heaped {
            heap: heap::default(),
            links: vec![heap_link::default(); LINKS],
            keys: vec![None; LINKS],
            model: BTreeSet::new(),
            base,
        }
    }

    /// Queues a link, or moves it if it is queued: then it keeps its turn.
    fn put(&mut self, i: usize, major: i64, minor: u64, turn: u32) {
        let at = self.base.wrapping_add(major as u64);
        let link = &mut self.links[i];

        let turn = self.keys[i].map_or(turn, |old| old.2);
        match self.keys[i].replace((major, minor, turn, i)) {
            Some(old) => {
                self.model.remove(&old);
                unsafe { core_heap_move(&mut self.heap, link, at, minor) }
            }
            None => {
                link.turn = turn;
                unsafe { core_heap_push(&mut self.heap, link, at, minor) }
            }
        }
        self.model.insert((major, minor, turn, i));
    }

    fn remove(&mut self, i: usize) {
        if let Some(old) = self.keys[i].take() {
            self.model.remove(&old);
            unsafe { core_heap_remove(&mut self.heap, &mut self.links[i]) }
        }
    }

    fn top(&self) -> Option<usize> {
        let first = self.links.as_ptr() as usize;

        (!self.heap.top.is_null())
            .then(|| (self.heap.top as usize - first) / std::mem::size_of::<heap_link>())
    }

    fn check(&self) {
        let mut found: Vec<_> = check::links(&self.heap)
            .iter()
            .map(|l| *l as *const heap_link)
            .collect();
        let mut wanted: Vec<_> = self
            .model
            .iter()
            .map(|k| &self.links[k.3] as *const heap_link)
            .collect();

        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "the heap does not hold what was put into it");
        for (link, key) in self.links.iter().zip(&self.keys) {
            assert_eq!(link.queued != 0, key.is_some());
        }
        let key = |k: &Key| (k.0, k.1, k.2);
        assert_eq!(
            self.top().map(|i| key(&self.keys[i].unwrap())),
            self.model.first().map(key),
            "the top is not the first"
        );
    }
}

#[derive(Clone, Debug)]
enum Op {
    Put(usize, i64, u64, u32),
    Remove(usize),
    Pop,
}

fn op() -> impl Strategy<Value = Op> {
    // Few different keys, so that many are equal, or as far apart as may be.
    let major = prop_oneof![-4i64..4, -(1i64 << 62)..1i64 << 62];
    let minor = prop_oneof![0u64..3, any::<u64>()];

    prop_oneof![
        6 => (0..LINKS, major, minor, 1u32..4)
            .prop_map(|(i, major, minor, turn)| Op::Put(i, major, minor, turn)),
        2 => (0..LINKS).prop_map(Op::Remove),
        1 => Just(Op::Pop),
    ]
}

proptest! {
    #[test]
    fn a_heap_is_an_ordered_set(base: u64, ops in prop::collection::vec(op(), 0..300)) {
        let mut h = Heaped::new(base);

        for op in ops {
            match op {
                Op::Put(i, major, minor, turn) => h.put(i, major, minor, turn),
                Op::Remove(i) => h.remove(i),
                Op::Pop => {
                    if let Some(i) = h.top() {
                        h.remove(i);
                    }
                }
            }
            h.check();
        }
    }

    #[test]
    fn links_come_out_in_order(
        base: u64,
        keys in prop::collection::vec((-9i64..9, 0u64..3, 1u32..4), 0..LINKS),
    ) {
        let mut h = Heaped::new(base);
        let mut out = Vec::new();

        for (i, (major, minor, turn)) in keys.iter().enumerate() {
            h.put(i, *major, *minor, *turn);
        }
        while let Some(i) = h.top() {
            out.push(keys[i]);
            h.remove(i);
            h.check();
        }
        let mut sorted = keys.clone();
        sorted.sort();
        prop_assert_eq!(out, sorted);
    }

    #[test]
    fn keys_order_across_the_wrap(major: u64, ahead in 1..1u64 << 63, minor_a: u64, minor_b: u64) {
        let later = major.wrapping_add(ahead);
        let before = |a, b, c, d| unsafe { core_heap_key_before(a, b, c, d) != 0 };

        prop_assert!(before(major, minor_a, later, minor_b));
        prop_assert!(!before(later, minor_a, major, minor_b));
        prop_assert_eq!(before(major, minor_a, major, minor_b), minor_a < minor_b);
    }
}

/// The worst orders for a leftist heap: each leaves one long spine on the left.
#[test]
fn sorted_orders_keep_the_bound() {
    for sign in [1, -1] {
        let mut h = Heaped::new(u64::MAX - 10);

        for i in 0..LINKS {
            h.put(i, sign * i as i64, 0, 1);
            h.check();
        }
        for i in 0..LINKS {
            h.remove(i);
            h.check();
        }
    }
}
