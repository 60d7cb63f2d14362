// SPDX-License-Identifier: GPL-2.0 OR MIT
//! tree.h: random trees of fair groups on one CPU, the bound of Lemma 1 (004) at every level after every step.

use crate::{
    check::{self, Id},
    host::Host,
    policy::*,
};
use proptest::prelude::*;
use std::collections::HashMap;

const QUANTUM_NS: u64 = 3_000_000;
const TASKS: usize = 8;
const GROUPS: usize = 6;
const CLASSES: usize = 3;
const DEPTH: u32 = 4;

fn vtime_of_ns(ns: u64, weight: u64) -> u64 {
    unsafe { core_vtime_of_ns(ns, weight) }
}

/// Weights as users give them: nice values, cgroup weights.
fn weight() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(u64::from(WEIGHT_ONE)),
        3 => (-20..20).prop_map(|nice| u64::from(unsafe { core_weight_of_nice(nice) })),
        1 => (1u32..=10_000).prop_map(|weight| u64::from(unsafe { core_weight_of_cgroup(weight) })),
    ]
}

#[derive(Clone, Debug)]
struct Shape {
    vtime: u64,
    classes: Vec<u64>,
    /// Each group's parent, among the classes and the groups before it: index 0 is the root.
    groups: Vec<(usize, u64)>,
    tasks: Vec<(usize, u64)>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let groups = prop::collection::vec((0..=GROUPS, weight()), 0..=GROUPS);
    let tasks = prop::collection::vec((0..=GROUPS, weight()), 1..=TASKS);
    let vtime = prop_oneof![Just(0u64), Just(u64::MAX - (1 << 32)), any::<u64>()];
    let classes = prop::collection::vec(1 << 10..=u64::from(WEIGHT_ONE), 0..=CLASSES);

    (vtime, classes, groups, tasks).prop_map(|(vtime, classes, groups, tasks)| Shape {
        vtime,
        classes,
        groups,
        tasks,
    })
}

/// A random number as a group: the root, or one of those before `below` that may have members.
fn pick(h: &Host, random: usize, depth_max: u32) -> Option<usize> {
    let among: Vec<_> = (0..h.groups.len())
        .filter(|&g| u32::from(h.groups[g].level) < depth_max)
        .collect();

    match random % (among.len() + 1) {
        0 => None,
        i => Some(among[i - 1]),
    }
}

fn build(shape: &Shape) -> Host {
    let mut h = Host::new(shape.vtime, 1_000_000_000, 0);

    for &capacity in &shape.classes {
        h.add_class(capacity);
    }
    for &(parent, weight) in &shape.groups {
        let parent = pick(&h, parent, DEPTH - 1);
        h.add_group(parent, weight);
    }
    for &(home, weight) in &shape.tasks {
        let home = pick(&h, home, DEPTH);
        h.add_task(home, None, weight);
    }
    h
}

#[derive(Clone, Debug)]
enum Step {
    Wake(usize),
    /// Wakes without making the CPU choose again: the running task goes on.
    WakeBeside(usize),
    /// Runs, and is compared afterwards, or only when its quantum ends.
    Run(u64, bool),
    Sleep,
    StopWaiting(usize),
    Weight(usize, u64),
    GroupWeight(usize, u64),
    Move(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let task = || 0..TASKS;
    let run = prop_oneof![1..=QUANTUM_NS, Just(QUANTUM_NS)];

    prop_oneof![
        4 => task().prop_map(Step::Wake),
        4 => task().prop_map(Step::WakeBeside),
        12 => (run, any::<bool>()).prop_map(|(ns, compare)| Step::Run(ns, compare)),
        4 => Just(Step::Sleep),
        1 => task().prop_map(Step::StopWaiting),
        1 => (task(), weight()).prop_map(|(t, w)| Step::Weight(t, w)),
        1 => (0..GROUPS, weight()).prop_map(|(g, w)| Step::GroupWeight(g, w)),
        1 => (task(), 0..=GROUPS).prop_map(|(t, g)| Step::Move(t, g)),
    ]
}

/// A host, and for each node by how much it may be ahead: a quantum at the weight at which it was charged last, or what
/// it brought along.
struct Watched {
    h: Host,
    lead: HashMap<Id, u64>,
    vmin: HashMap<Id, u64>,
}

impl Watched {
    fn new(h: Host) -> Self {
        Watched {
            h,
            lead: HashMap::new(),
            vmin: HashMap::new(),
        }
    }

    /// The task and the groups above it.
    fn path(&self, t: usize) -> Vec<(Id, *mut tree_node)> {
        let groups = check::groups(&self.h);
        let mut path = vec![(Id::Task(t), self.h.node(t))];

        loop {
            let parent = unsafe { (*path[path.len() - 1].1).parent };
            match groups.iter().find(|(_, g)| *g == parent) {
                Some((Id::Top, _)) | None => return path,
                Some((id, g)) => path.push((*id, unsafe { &raw mut (**g).node })),
            }
        }
    }

    /// The CPU chooses. Whoever ran is charged meanwhile, at the weights that hold now.
    fn choose(&mut self, sleeps: bool) {
        if let Some(t) = self.h.running {
            for (id, n) in self.path(t) {
                self.lead
                    .insert(id, vtime_of_ns(QUANTUM_NS, unsafe { (*n).weight }));
            }
        }
        if sleeps {
            self.h.sleep();
        }
        self.h.dispatch();
    }

    fn run(&mut self, ns: u64, compare: bool) {
        let left_ns = QUANTUM_NS - self.h.uncharged_ns;

        self.h.pass(ns.min(left_ns));
        if self.h.uncharged_ns == QUANTUM_NS || compare {
            self.choose(false);
        }
    }

    fn relocate(&mut self, t: usize, group: usize) {
        if self.h.running == Some(t) {
            return;
        }
        let to = pick(&self.h, group, DEPTH);
        let lead_ns = self.brings_ns(t);
        self.h.relocate(t, to, None);
        self.brought(t, lead_ns);
    }

    /// What a task that is moved takes along: its lead in its group, and the group's where it is alone, as CPU time.
    fn brings_ns(&self, t: usize) -> u64 {
        let mut lead_ns = 0;

        for (_, n) in self.path(t) {
            unsafe {
                let g = (*n).parent;
                if g.is_null() {
                    break;
                }
                lead_ns += core_vtime_to_ns((*n).vtime.wrapping_sub((*g).vmin), (*n).weight);
                if (*g).nr_active > u32::from((*n).active) {
                    break;
                }
            }
        }
        lead_ns
    }

    fn brought(&mut self, t: usize, lead_ns: u64) {
        let weight = self.h.tasks[t].weight;

        self.lead.insert(Id::Task(t), vtime_of_ns(lead_ns, weight));
    }

    fn set_weight(&mut self, t: usize, weight: u64) {
        let lead_ns = self.brings_ns(t);

        self.h.set_weight(t, weight);
        self.brought(t, lead_ns);
    }

    fn set_group_weight(&mut self, g: usize, weight: u64) {
        let n = unsafe { &(*self.h.groups[g].at()).node };
        let lead_ns = unsafe { core_vtime_to_ns(n.vtime.wrapping_sub((*n.parent).vmin), n.weight) };

        // Its lead is rounded down to whole nanoseconds.
        if weight != n.weight {
            self.lead.insert(Id::Group(g), vtime_of_ns(lead_ns, weight));
        }
        self.h.set_group_weight(g, weight);
    }

    fn step(&mut self, step: &Step) {
        let (nr_tasks, nr_groups) = (self.h.tasks.len(), self.h.groups.len());

        match *step {
            Step::Wake(t) => {
                self.h.wake(t % nr_tasks);
                self.choose(false);
            }
            Step::WakeBeside(t) => {
                self.h.wake(t % nr_tasks);
                if self.h.running.is_none() {
                    self.choose(false);
                }
            }
            Step::Run(ns, compare) => self.run(ns, compare),
            Step::Sleep => self.choose(true),
            Step::StopWaiting(t) => self.h.stop_waiting(t % nr_tasks),
            Step::Weight(t, weight) => self.set_weight(t % nr_tasks, weight),
            Step::GroupWeight(g, weight) if nr_groups > 0 => {
                self.set_group_weight(g % nr_groups, weight)
            }
            Step::GroupWeight(..) => (),
            Step::Move(t, g) => self.relocate(t % nr_tasks, g),
        }
    }

    /// Lemma 1: for runnable i, j of one group, `vtime_i - vtime_j <= quantum / weight_i`, but for what j was owed when it
    /// went to sleep, and has not had yet.
    fn check_lemma_1(&self) {
        for (id, g) in check::groups(&self.h) {
            let active: Vec<_> = check::members(&self.h, g)
                .into_iter()
                .filter(|(_, n)| unsafe { (**n).active } != 0)
                .collect();

            for (i, n) in &active {
                for (j, m) in &active {
                    let ahead = unsafe { (**n).vtime.wrapping_sub(owed_until(&**m)) } as i64;
                    let lead = *self.lead.get(i).unwrap_or(&0);
                    assert!(
                        ahead <= lead as i64,
                        "{id:?}: {i:?} is {ahead} ahead of {j:?}, may be {lead}"
                    );
                }
            }
        }
    }

    fn check_minimum(&mut self) {
        for (id, g) in check::groups(&self.h) {
            let vmin = unsafe { (*g).vmin };
            let before = self.vmin.insert(id, vmin).unwrap_or(vmin);

            assert!(
                vmin.wrapping_sub(before) as i64 >= 0,
                "{id:?}: the minimum went back"
            );
            for (member, n) in check::members(&self.h, g) {
                let n = unsafe { &*n };
                let behind = vmin.wrapping_sub(owed_until(n)) as i64;
                assert!(
                    n.active == 0 || behind <= 0,
                    "{member:?} is {behind} behind the minimum of {id:?}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn lemma_1_holds_at_every_level(shape in shape(), steps in prop::collection::vec(step(), 1..150)) {
        let mut w = Watched::new(build(&shape));

        for step in &steps {
            w.step(step);
            check::tree(&w.h);
            w.check_minimum();
            w.check_lemma_1();
        }
    }
}

/// The virtual time of a member, or that at which it has had what it was owed when it went to sleep.
fn owed_until(n: &tree_node) -> u64 {
    let owed = n.rest_vtime.wrapping_sub(n.vtime) as i64;

    match u32::from(n.kind) {
        NODE_PERIOD | NODE_RC => n.vtime,
        _ => n.vtime.wrapping_add(owed.max(0) as u64),
    }
}

/// The smallest leaves, and comes back while its successor runs: it must not find its old minimum again.
#[test]
fn the_minimum_follows_who_leaves() {
    let mut w = Watched::new(Host::new(0, 0, 0));
    let weight = u64::from(WEIGHT_ONE);

    for _ in 0..2 {
        w.h.add_task(None, None, weight);
    }
    w.h.wake(0);
    w.choose(false);
    w.h.wake(1);
    w.h.pass(QUANTUM_NS);
    w.choose(false);
    assert_eq!(w.h.running, Some(1));
    w.choose(true);
    w.h.wake(1);
    w.h.pass(QUANTUM_NS);
    w.choose(false);
    w.check_lemma_1();
}

/// A task that always ran alone is charged when it has gone to sleep: who comes then may not start behind all of that.
#[test]
fn the_minimum_follows_who_ran_alone() {
    let mut w = Watched::new(Host::new(0, 0, 0));

    for _ in 0..2 {
        w.h.add_task(None, None, u64::from(WEIGHT_ONE));
    }
    w.h.wake(0);
    w.choose(false);
    w.h.pass(1000 * QUANTUM_NS);
    w.choose(true);
    w.h.wake(1);
    unsafe { assert_eq!((*w.h.node(1)).vtime, (*w.h.node(0)).vtime) };
}

/// Who takes a task elsewhere does not know who runs here: its choice moves no virtual time.
#[test]
fn who_only_looks_moves_no_minimum() {
    let mut w = Watched::new(Host::new(0, 0, 0));

    for _ in 0..2 {
        w.h.add_task(None, None, u64::from(WEIGHT_ONE));
        w.h.wake(w.h.tasks.len() - 1);
    }
    w.choose(false);
    w.h.pass(QUANTUM_NS);
    w.choose(false);
    assert_eq!(w.h.running, Some(1));
    let vmin = unsafe { (*w.h.root()).vmin };
    let mut c = w.h.look();
    assert_eq!(c.task, w.h.node(0));
    assert_eq!(unsafe { (*w.h.root()).vmin }, vmin);
    c.looks = 0;
    w.h.choose_by(&mut c);
    assert_ne!(unsafe { (*w.h.root()).vmin }, vmin);
}

/// CPU time of each node of the tree.
fn received(w: &Watched) -> HashMap<Id, u64> {
    let mut received = HashMap::new();

    for (t, task) in w.h.tasks.iter().enumerate() {
        for (id, _) in w.path(t) {
            *received.entry(id).or_insert(0) += task.ran_ns;
        }
    }
    received
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Theorem 2: who is runnable all the time has at every moment its part of what its group received, to within a
    /// quantum more, and to within what a quantum of each other member takes from it.
    #[test]
    fn shares_are_exact_to_a_quantum(
        shape in shape(), runs in prop::collection::vec(prop_oneof![1..=QUANTUM_NS, Just(QUANTUM_NS)], 1..400),
    ) {
        let mut w = Watched::new(build(&shape));
        let rounding_ns = runs.len() as f64 * 0.1 + 1.0;

        for t in 0..w.h.tasks.len() {
            w.h.wake(t);
        }
        w.choose(false);
        for ns in runs {
            w.h.pass(ns);
            w.choose(false);
        }
        let received = received(&w);
        for (_, g) in check::groups(&w.h) {
            let members: Vec<_> = check::members(&w.h, g)
                .into_iter()
                .filter_map(|(id, n)| Some((id, unsafe { (*n).weight } as f64, *received.get(&id)? as f64)))
                .collect();
            let all: f64 = members.iter().map(|m| m.2).sum();
            let weights: f64 = members.iter().map(|m| m.1).sum();

            for (id, weight, got) in &members {
                let part = weight / weights;
                let others = (members.len() - 1) as f64;
                let most = part * all + QUANTUM_NS as f64 + rounding_ns;
                let least = part * all - others * part * QUANTUM_NS as f64 - rounding_ns;

                prop_assert!(*got <= most, "{:?} got {} ns of {}, more than {}", id, got, all, most);
                prop_assert!(*got >= least, "{:?} got {} ns of {}, less than {}", id, got, all, least);
            }
        }
    }

    /// Nothing of what a sleeper did not use is kept for it.
    #[test]
    fn sleep_saves_nothing(slept_ns in 1..1000 * QUANTUM_NS, weight in weight(), vtime: u64) {
        let mut w = Watched::new(Host::new(vtime, 0, 0));

        for weight in [u64::from(WEIGHT_ONE), weight] {
            w.h.add_task(None, None, weight);
        }
        w.h.wake(0);
        w.choose(false);
        let mut left_ns = slept_ns;
        while left_ns > 0 {
            let ns = left_ns.min(QUANTUM_NS);
            w.h.pass(ns);
            w.choose(false);
            left_ns -= ns;
        }
        w.h.wake(1);
        w.choose(false);
        let ahead = w.h.tasks[0].member.node.vtime.wrapping_sub(w.h.tasks[1].member.node.vtime) as i64;
        prop_assert!((0..=vtime_of_ns(QUANTUM_NS, u64::from(WEIGHT_ONE)) as i64).contains(&ahead));
    }
}

proptest! {
    /// A task that comes to wait from another CPU is behind by LAG_MAX_NS and a leap of the minimum at most, whatever the others
    /// had meanwhile, and by what it is if that is less.
    #[test]
    fn a_lag_is_bounded_on_the_far_side(ran_ns in 0..100_000_000u64, weight in weight(), vtime: u64) {
        let mut h = Host::new(vtime, 0, 0);
        let [away, here] = [weight, u64::from(WEIGHT_ONE)].map(|w| h.add_task(None, None, w));
        let mut c = choice::default();

        h.wake(away);
        h.wake(here);
        unsafe {
            core_tree_dequeue(h.node(away));
            core_place_wait_no_more(h.place.at(), h.member(away));
            core_tree_charge(h.node(here), ran_ns);
        }
        h.choose_by(&mut c);
        prop_assert_eq!(c.task, h.node(here));
        let behind = |h: &Host| unsafe { (*h.root()).vmin.wrapping_sub((*h.node(away)).vtime) };
        let all = behind(&h);
        prop_assert_eq!(all, vtime_of_ns(ran_ns, u64::from(WEIGHT_ONE)));
        unsafe {
            core_tree_enqueue(h.node(away));
            core_place_wait(h.place.at(), h.member(away), h.now_ns);
        }
        let lag_max_ns = u64::from(LAG_MAX_NS);
        let leap = vtime_of_ns(lag_max_ns / 2, (weight + u64::from(WEIGHT_ONE)) / 2);
        prop_assert_eq!(behind(&h), all.min(vtime_of_ns(lag_max_ns, weight) + leap));
    }
}

#[test]
fn a_member_is_found_at_every_level() {
    let mut h = Host::new(0, 0, 0);
    let outer = h.add_group(None, 1024);
    let inner = h.add_group(Some(outer), 1024);
    let other = h.add_group(None, 1024);
    let t = h.add_task(Some(inner), None, 1024);
    let above = |g| unsafe { core_tree_member_above(h.node(t), g) };

    unsafe {
        assert_eq!(above(h.groups[inner].at()), h.node(t));
        assert_eq!(
            above(h.groups[outer].at()),
            &raw mut (*h.groups[inner].at()).node
        );
        assert_eq!(above(h.root()), &raw mut (*h.groups[outer].at()).node);
        assert!(above(h.groups[other].at()).is_null());
    }
}
