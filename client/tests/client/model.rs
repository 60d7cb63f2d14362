// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event loop against a model: the thesis' Figures 2.3 and 2.4 written down with plain lists, where the
//! proxies are events like any other. Both run the same script; their traces must be the same.

use consort::{Epoll, Error, Event, EventLoop, Host, Next, Others, Proxies, When, NEVER};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

const EVENTS: usize = 6;

#[derive(Clone, Copy, Debug)]
enum Op {
    Due(usize, u64),
    BestEffort(usize, u32, u64),
    Cancel(usize),
}

/// What the others want after a poll: yield-by time from then, and their best-effort event's rank.
type Wants = (Option<u64>, Option<(u32, u64)>);

#[derive(Clone, Debug)]
struct Script {
    first: Vec<Op>,
    /// How long the nth callback takes, and what it does.
    callbacks: Vec<(u64, Vec<Op>)>,
    polls: Vec<Wants>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Run { event: usize, now_ns: u64 },
    Poll { next: Next, now_ns: u64 },
}

/// What both share: a clock that only moves when told, the others, and what has happened.
struct World {
    script: Script,
    now_ns: u64,
    proxies: Proxies,
    trace: Vec<Step>,
    runs: usize,
    polls: usize,
}

impl World {
    fn new(script: &Script) -> World {
        World {
            script: script.clone(),
            now_ns: 1000,
            proxies: Proxies::none(),
            trace: Vec::new(),
            runs: 0,
            polls: 0,
        }
    }

    fn poll(&mut self, next: Next) {
        let now_ns = self.now_ns;
        self.trace.push(Step::Poll { next, now_ns });
        if next.best_effort.is_none() && next.due_ns > self.now_ns {
            assert_ne!(next.due_ns, NEVER, "sleeps for ever");
            self.now_ns = next.due_ns;
        }
        let wants = self.script.polls.get(self.polls);
        let (yield_in_ns, best_effort) = wants.copied().unwrap_or((None, None));
        self.polls += 1;
        self.proxies = Proxies {
            yield_by_ns: yield_in_ns.map_or(NEVER, |ns| self.now_ns + ns),
            best_effort,
        };
    }

    /// Starts the callback of the event: time passes, and these are its operations.
    fn run(&mut self, event: usize) -> Vec<Op> {
        let now_ns = self.now_ns;
        self.trace.push(Step::Run { event, now_ns });
        let callback = self.script.callbacks.get(self.runs).cloned();
        self.runs += 1;
        let (takes_ns, ops) = callback.unwrap_or((1, Vec::new()));
        self.now_ns += takes_ns;
        ops
    }
}

// ---- the model ----

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Own(usize),
    Proxy,
}

#[derive(Default)]
struct Model {
    due: Vec<(u64, u64, Who)>,
    best_effort: Vec<(u32, u64, u64, Who)>,
    submissions: u64,
}

impl Model {
    fn apply(&mut self, op: Op, now_ns: u64) {
        match op {
            Op::Due(event, ahead_ns) => self.submit_due(Who::Own(event), now_ns + ahead_ns),
            Op::BestEffort(event, priority, key) => {
                self.submit_best_effort(Who::Own(event), (priority, key));
            }
            Op::Cancel(event) => self.cancel(Who::Own(event)),
        }
    }

    fn is_submitted(&self, who: Who) -> bool {
        self.due.iter().any(|e| e.2 == who) || self.best_effort.iter().any(|e| e.3 == who)
    }

    fn submit_due(&mut self, who: Who, due_ns: u64) {
        if who == Who::Proxy || !self.is_submitted(who) {
            self.submissions += 1;
            self.due.push((due_ns, self.submissions, who));
        }
    }

    fn submit_best_effort(&mut self, who: Who, (priority, key): (u32, u64)) {
        if who == Who::Proxy || !self.is_submitted(who) {
            self.submissions += 1;
            let entry = (priority, key, self.submissions, who);
            self.best_effort.push(entry);
        }
    }

    fn cancel(&mut self, who: Who) {
        self.due.retain(|e| e.2 != who);
        self.best_effort.retain(|e| e.3 != who);
    }

    /// The heads; among equals a proxy comes last, whenever it was submitted.
    fn due_head(&self) -> Option<(u64, u64, Who)> {
        let by = |e: &(u64, u64, Who)| (e.0, e.2 == Who::Proxy, e.1);
        self.due.iter().copied().min_by_key(by)
    }

    fn best_effort_head(&self) -> Option<(u32, u64, u64, Who)> {
        let by = |e: &(u32, u64, u64, Who)| (e.0, e.1, e.3 == Who::Proxy, e.2);
        self.best_effort.iter().copied().min_by_key(by)
    }

    fn run(mut self, world: &mut World) {
        for op in world.script.first.clone() {
            self.apply(op, world.now_ns);
        }
        loop {
            let head = match (self.due_head(), self.best_effort_head()) {
                (Some((due_ns, _, who)), _) if due_ns <= world.now_ns => Some(who),
                (_, Some((_, _, _, who))) => Some(who),
                _ => None,
            };
            match head {
                Some(Who::Own(event)) => {
                    self.cancel(Who::Own(event));
                    for op in world.run(event) {
                        self.apply(op, world.now_ns);
                    }
                    // Every yield is followed by a unit of work: only then do the proxies count.
                    self.submit_proxies(world.proxies);
                }
                Some(Who::Proxy) | None => {
                    if !self.yield_to_others(world) {
                        return;
                    }
                }
            }
        }
    }

    fn submit_proxies(&mut self, proxies: Proxies) {
        self.cancel(Who::Proxy);
        if proxies.yield_by_ns != NEVER {
            self.submit_due(Who::Proxy, proxies.yield_by_ns);
        }
        if let Some(rank) = proxies.best_effort {
            self.submit_best_effort(Who::Proxy, rank);
        }
    }

    fn yield_to_others(&mut self, world: &mut World) -> bool {
        self.cancel(Who::Proxy);
        if self.due.is_empty() && self.best_effort.is_empty() {
            return false;
        }
        world.poll(Next {
            due_ns: self.due_head().map_or(NEVER, |e| e.0),
            best_effort: self.best_effort_head().map(|e| (e.0, e.1)),
        });
        true
    }
}

// ---- the loop ----

struct OnWorld(Rc<RefCell<World>>);

impl Host for OnWorld {
    fn now_ns(&self) -> u64 {
        self.0.borrow().now_ns
    }

    fn proxies(&self) -> Result<Proxies, Error> {
        Ok(self.0.borrow().proxies)
    }

    fn others(&self) -> Result<Others, Error> {
        let proxies = self.0.borrow().proxies;
        let (yield_by_ns, best_effort) = (proxies.yield_by_ns, proxies.best_effort);
        Ok(Others::wanting(yield_by_ns, yield_by_ns, best_effort))
    }

    fn publish(&mut self, _next: Next, _now_ns: u64) -> Result<(), Error> {
        Ok(())
    }

    fn poll(&mut self, next: Next, now_ns: u64, fds: Option<&mut Epoll>) -> Result<(), Error> {
        let mut world = self.0.borrow_mut();
        assert_eq!(now_ns, world.now_ns);
        assert!(fds.is_none());
        world.poll(next);
        Ok(())
    }
}

fn apply(events: &mut EventLoop, names: &[Event], op: Op) {
    let now_ns = events.now_ns();
    let (event, when) = match op {
        Op::Due(event, ahead_ns) => {
            let due_ns = now_ns + ahead_ns;
            (event, When::Due { due_ns })
        }
        Op::BestEffort(event, priority, key) => (event, When::BestEffort { priority, key }),
        Op::Cancel(event) => return events.cancel(names[event]),
    };
    let was_submitted = events.is_submitted(names[event]);
    assert_eq!(events.submit(names[event], when).unwrap(), !was_submitted);
}

fn run_loop(script: &Script) -> Vec<Step> {
    let world = Rc::new(RefCell::new(World::new(script)));
    let mut events = EventLoop::on_host(Box::new(OnWorld(Rc::clone(&world)))).unwrap();
    let names: Rc<RefCell<Vec<Event>>> = Rc::default();
    for event in 0..EVENTS {
        let (world, all) = (Rc::clone(&world), Rc::clone(&names));
        let name = events.event(move |events| {
            let ops = world.borrow_mut().run(event);
            for op in ops {
                apply(events, &all.borrow(), op);
            }
        });
        names.borrow_mut().push(name);
    }
    for op in &script.first {
        apply(&mut events, &names.borrow(), *op);
    }
    events.run().unwrap();
    let trace = world.borrow().trace.clone();
    trace
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..EVENTS, 0..40u64).prop_map(|(event, ns)| Op::Due(event, ns)),
        4 => (0..EVENTS, 0..3u32, 0..3u64).prop_map(|(event, p, k)| Op::BestEffort(event, p, k)),
        1 => (0..EVENTS).prop_map(Op::Cancel),
    ]
}

fn any_script() -> impl Strategy<Value = Script> {
    let ops = || prop::collection::vec(any_op(), 0..4);
    let wants = (
        prop::option::of(0..30u64),
        prop::option::of((0..3u32, 0..3u64)),
    );
    (
        prop::collection::vec(any_op(), 1..8),
        prop::collection::vec((0..25u64, ops()), 0..30),
        prop::collection::vec(wants, 0..30),
    )
        .prop_map(|(first, callbacks, polls)| Script {
            first,
            callbacks,
            polls,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_loop_does_what_the_figures_say(script in any_script()) {
        let mut world = World::new(&script);
        Model::default().run(&mut world);
        prop_assert_eq!(run_loop(&script), world.trace);
    }
}
