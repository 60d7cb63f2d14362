// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's part in reserved rates: its books (consort-rates), and what it tells the scheduler. As in the daemon's
//! reservations.rs and lending.rs, without a journal: each request is admitted, told, and then written down.

use super::Consort;
use crate::ffi;
use crate::groups::Group;
use crate::kernel::Kernel;
use crate::rates::{RateRequest, Reserve, ROOT};
use crate::trace::{TaskId, What};
use consort_rates::admission::{Ledger, UserLimits, PERIOD_MAX_NS, PERIOD_MIN_NS};
use consort_rates::classes::{Classes, Order};
use consort_rates::credits::Credits;
use consort_rates::rate::{Rate, RATE_MIN};
use consort_rates::{ClassTable, Refusal, CLASSES_MAX, RATE_ONE};
use std::collections::{BTreeMap, BTreeSet};

const _: () =
    assert!(CLASSES_MAX == ffi::CLASSES_MAX as usize && RATE_ONE == ffi::CONSORT_RATE_ONE);

pub(super) struct Reservations {
    ledger: Ledger<TaskId>,
    credits: Credits,
    /// The scheduler's numbers, by the ledger's.
    ids: BTreeMap<u32, u32>,
}

impl Reservations {
    fn new(classes: Classes) -> Self {
        Self {
            ledger: Ledger::new(classes, UserLimits::default()),
            credits: Credits::default(),
            ids: BTreeMap::new(),
        }
    }

    /// What was asked for; nothing where only credits are held.
    fn own(&self, number: u32) -> Rate {
        self.ledger.get(number).map_or(Rate(0), |held| held.rate)
    }

    fn balance(&self, number: u32) -> Rate {
        self.credits.balance(number, self.own(number))
    }

    fn number_of(&self, k: &Kernel, task: TaskId) -> Result<u32, Refusal> {
        let held = self.ledger.find(&task);
        held.ok_or_else(|| refusal(format!("{} has no reservation", k.task_name(task))))
    }
}

fn refusal(text: impl Into<String>) -> Refusal {
    Refusal::new(nix::errno::Errno::EINVAL, text)
}

type Operation = unsafe extern "C" fn(*mut ffi::consort_reservation_args) -> std::ffi::c_int;

impl Consort {
    /// Before the first task.
    pub(super) fn begin_rates(&mut self, k: &mut Kernel) {
        let setup = std::rc::Rc::clone(&k.setup);
        let Some(rates) = &setup.rates else {
            return;
        };
        self.rates = Some(Reservations::new(rates.classes.clone()));
        self.divide(k, &rates.classes.table());
    }

    fn divide(&mut self, k: &mut Kernel, table: &ClassTable) {
        let mut args = ffi::consort_classes_args::default();
        self.enter_free(k);
        // SAFETY: the scheduler's variable and operation, during our turn.
        unsafe {
            let into = &mut *self.scheduler.class_table;
            into.capacity = table.capacity;
            into.flexible = table.flexible;
            into.order = table.order.map(|order| order as u8);
            if let Some(classes) = self.scheduler.classes {
                classes(&mut args);
            }
        }
        if args.error != 0 {
            let detail = format!("classes cannot be set: errno {}", args.error);
            k.violate("leak", detail);
        }
    }

    fn operate(
        &mut self,
        k: &mut Kernel,
        operation: Option<Operation>,
        mut args: ffi::consort_reservation_args,
        doing: &str,
    ) -> Result<ffi::consort_reservation_args, Refusal> {
        self.enter_free(k);
        if let Some(operation) = operation {
            // SAFETY: the argument is the program's own struct.
            unsafe { operation(&mut args) };
        }
        match args.error {
            0 => Ok(args),
            errno => Err(Refusal::new(
                nix::errno::Errno::from_raw(errno as i32),
                format!("the scheduler did not {doing}"),
            )),
        }
    }

    pub(super) fn ask(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        request: RateRequest,
    ) -> Result<(), Refusal> {
        let Some(mut books) = self.rates.take() else {
            return Err(refusal("there are no classes"));
        };
        let done = match request {
            RateRequest::Reserve(wanted) => self.grant(k, &mut books, task, wanted),
            RateRequest::Release => books
                .number_of(k, task)
                .map(|number| self.release(k, &mut books, number)),
            RateRequest::Lend { to, rate } => self.lend(k, &mut books, task, to, Rate(rate)),
            RateRequest::Recollect { from, rate } => {
                self.recollect(k, &mut books, task, from, rate.map(Rate))
            }
        };
        self.keep(books);
        done
    }

    /// Slices follow the shortest period at once.
    fn keep(&mut self, books: Reservations) {
        // SAFETY: the scheduler's variable, during our turn.
        unsafe {
            (*self.scheduler.class_table).shortest_period_ns = books.ledger.shortest_period_ns();
        }
        self.rates = Some(books);
    }

    fn grant(
        &mut self,
        k: &mut Kernel,
        books: &mut Reservations,
        task: TaskId,
        wanted: Reserve,
    ) -> Result<(), Refusal> {
        let rate = Rate::asked(Rate(wanted.rate).value())?;
        if !(PERIOD_MIN_NS..=PERIOD_MAX_NS).contains(&wanted.period_ns) {
            return Err(refusal(format!(
                "period of {} ns is out of range",
                wanted.period_ns
            )));
        }
        let old = books.ledger.find(&task);
        books.ledger.admit(ROOT, wanted.class, rate, old)?;
        let moves = old
            .and_then(|number| books.ledger.get(number))
            .is_some_and(|held| held.class != wanted.class);
        if moves && old.is_some_and(|number| books.credits.concern(number)) {
            return Err(refusal(
                "credits stay in their class: recollect and return them before changing the class",
            ));
        }
        let number = match old {
            Some(number) => number,
            None => {
                let terms = (wanted.class, rate, wanted.period_ns);
                self.begin_reservation(k, books, task, terms)?
            }
        };
        books.ledger.insert(number, wanted.of(task));
        self.weigh(k, books, &BTreeSet::from([number]))
    }

    /// In the scheduler, with the task; the ledger's new number.
    fn begin_reservation(
        &mut self,
        k: &mut Kernel,
        books: &mut Reservations,
        task: TaskId,
        (class, usable, period_ns): (usize, Rate, u64),
    ) -> Result<u32, Refusal> {
        let made = self.operate(
            k,
            self.scheduler.reservation_create,
            ffi::consort_reservation_args {
                class: class as u32,
                rate: usable.max(RATE_MIN).weight(),
                period_ns,
                ..Default::default()
            },
            "make a reservation",
        )?;
        let number = books.ledger.next_number();
        books.ids.insert(number, made.reservation);
        let args = ffi::consort_reservation_args {
            reservation: made.reservation,
            tid: k.tasks[task as usize].c.pid,
            ..Default::default()
        };
        let added = self.operate(
            k,
            self.scheduler.reservation_add,
            args,
            "let the task use its reservation",
        );
        if let Err(refused) = added {
            self.end_reservation(k, books, number);
            return Err(refused);
        }
        Ok(number)
    }

    /// Tells the scheduler what reservations may use now: first those that have less.
    fn weigh(
        &mut self,
        k: &mut Kernel,
        books: &Reservations,
        changed: &BTreeSet<u32>,
    ) -> Result<(), Refusal> {
        let lends = |number: &&u32| books.balance(**number) < books.own(**number);
        let (less, more): (Vec<&u32>, Vec<&u32>) = changed.iter().partition(lends);
        for number in less.into_iter().chain(more) {
            let (Some(held), Some(id)) = (books.ledger.get(*number), books.ids.get(number)) else {
                continue;
            };
            let args = ffi::consort_reservation_args {
                reservation: *id,
                class: held.class as u32,
                rate: books.balance(*number).max(RATE_MIN).weight(),
                period_ns: held.period_ns,
                ..Default::default()
            };
            self.operate(
                k,
                self.scheduler.reservation_change,
                args,
                "change a reservation",
            )?;
        }
        Ok(())
    }

    /// Makes changed credits those that hold, and ends reservations that had nothing else.
    fn adopt(
        &mut self,
        k: &mut Kernel,
        books: &mut Reservations,
        credits: Credits,
        changed: &BTreeSet<u32>,
    ) -> Result<(), Refusal> {
        books.credits = credits;
        self.weigh(k, books, changed)?;
        for number in changed {
            if books.ledger.get(*number).is_some() && books.balance(*number) == Rate(0) {
                self.release(k, books, *number);
            }
        }
        Ok(())
    }

    fn lend(
        &mut self,
        k: &mut Kernel,
        books: &mut Reservations,
        lender: TaskId,
        to: usize,
        rate: Rate,
    ) -> Result<(), Refusal> {
        let from = books.number_of(k, lender)?;
        let of_lender = books.ledger.get(from);
        let class = of_lender.map_or(0, |held| held.class);
        let period_ns = of_lender.map_or(PERIOD_MIN_NS, |held| held.period_ns);
        let receiver = living(k, to)?;
        let mut credits = books.credits.clone();
        let existing = books.ledger.find(&receiver);
        if existing
            .and_then(|number| books.ledger.get(number))
            .is_some_and(|held| held.class != class)
        {
            return Err(refusal(
                "the receiver has reserved in another class: credits stay in their class",
            ));
        }
        // Number 0 is nobody's: whether so much can be lent is known before anything is made.
        credits.lend(from, existing.unwrap_or(0), books.own(from), rate)?;
        let number = match existing {
            Some(number) => number,
            None => {
                let number =
                    self.begin_reservation(k, books, receiver, (class, rate, period_ns))?;
                let lent = Reserve {
                    class,
                    rate: 0,
                    period_ns,
                };
                books.ledger.insert(number, lent.of(receiver));
                credits = books.credits.clone();
                credits.lend(from, number, books.own(from), rate)?;
                number
            }
        };
        self.adopt(k, books, credits, &BTreeSet::from([from, number]))
    }

    fn recollect(
        &mut self,
        k: &mut Kernel,
        books: &mut Reservations,
        lender: TaskId,
        from: usize,
        rate: Option<Rate>,
    ) -> Result<(), Refusal> {
        let own = books.number_of(k, lender)?;
        let held = books.number_of(k, living(k, from)?)?;
        let mut credits = books.credits.clone();
        let changed = credits.take_back(own, held, rate, |number| books.own(number))?;
        self.adopt(k, books, credits, &changed)
    }

    /// The reservation ends, with all credits that it gave or has.
    fn release(&mut self, k: &mut Kernel, books: &mut Reservations, number: u32) {
        let mut credits = books.credits.clone();
        let changed = credits.end(number, |other| match other == number {
            true => Rate(0),
            false => books.own(other),
        });
        books.ledger.remove(number);
        self.end_reservation(k, books, number);
        if let Err(refused) = self.adopt(k, books, credits, &changed) {
            k.violate(
                "state",
                format!("credits of a reservation that ended: {}", refused.text),
            );
        }
    }

    fn end_reservation(&mut self, k: &mut Kernel, books: &mut Reservations, number: u32) {
        let Some(id) = books.ids.remove(&number) else {
            return;
        };
        let args = ffi::consort_reservation_args {
            reservation: id,
            ..Default::default()
        };
        if let Err(refused) =
            self.operate(k, self.scheduler.reservation_end, args, "end a reservation")
        {
            k.violate("leak", refused.to_string());
        }
    }

    /// Reservations that nobody uses any more end.
    pub(super) fn end_unused(&mut self, k: &mut Kernel) {
        let Some(mut books) = self.rates.take() else {
            return;
        };
        for (number, id) in books.ids.clone() {
            let args = ffi::consort_reservation_args {
                reservation: id,
                ..Default::default()
            };
            let usage = self.operate(
                k,
                self.scheduler.reservation_usage,
                args,
                "tell a reservation's usage",
            );
            if usage.is_ok_and(|usage| usage.tasks == 0) {
                self.release(k, &mut books, number);
            }
        }
        self.keep(books);
    }

    /// At the end of a run: nobody uses anything any more, and classes can go.
    pub(super) fn end_rates(&mut self, k: &mut Kernel) {
        self.end_unused(k);
        let Some(books) = self.rates.take() else {
            return;
        };
        if let Some((number, _)) = books.ids.first_key_value() {
            k.violate(
                "leak",
                format!("reservation {number} is used by nobody, and does not end"),
            );
        }
        let none = ClassTable {
            capacity: [0; CLASSES_MAX],
            flexible: RATE_ONE,
            order: [Order::default(); CLASSES_MAX],
        };
        self.divide(k, &none);
    }

    /// What a group's members are to share: a reservation of its own, before anybody plays a role.
    pub(super) fn reserve_for_group(
        &mut self,
        k: &mut Kernel,
        index: usize,
        group: &Group,
    ) -> Option<u32> {
        let wanted = group.reserve?;
        let mut books = self.rates.take()?;
        let made = self.grant_to_group(k, &mut books, index, wanted);
        self.keep(books);
        match made {
            Ok(reservation) => Some(reservation),
            Err(refused) => {
                let detail = format!("the group {} gets no rate: {}", group.name, refused.text);
                k.violate("refusal", detail);
                None
            }
        }
    }

    fn grant_to_group(
        &mut self,
        k: &mut Kernel,
        books: &mut Reservations,
        index: usize,
        wanted: Reserve,
    ) -> Result<u32, Refusal> {
        let rate = Rate::asked(Rate(wanted.rate).value())?;
        books.ledger.admit(ROOT, wanted.class, rate, None)?;
        let args = ffi::consort_reservation_args {
            class: wanted.class as u32,
            rate: rate.weight(),
            period_ns: wanted.period_ns,
            ..Default::default()
        };
        let create = self.scheduler.reservation_create;
        let made = self.operate(k, create, args, "make a group's reservation")?;
        let number = books.ledger.next_number();
        // No task has such a number.
        let holder = TaskId::MAX - index as TaskId;
        books.ledger.insert(number, wanted.of(holder));
        Ok(made.reservation)
    }

    pub(super) fn end_reservations_of_groups(&mut self, k: &mut Kernel) {
        for reservation in std::mem::take(&mut self.groups.reservations) {
            let Some(reservation) = reservation else {
                continue;
            };
            let args = ffi::consort_reservation_args {
                reservation,
                ..Default::default()
            };
            let end = self.scheduler.reservation_end;
            if let Err(refused) = self.operate(k, end, args, "end a group's reservation") {
                k.violate("leak", refused.to_string());
            }
        }
    }

    /// The reservations that a new task has from its beginning.
    pub(super) fn reserve_first(&mut self, k: &mut Kernel, task: TaskId) {
        let setup = std::rc::Rc::clone(&k.setup);
        let of = k.tasks[task as usize].of;
        let planned = setup.rates.iter().flat_map(|rates| &rates.reserved);
        for (_, wanted) in planned.filter(|(index, _)| *index == of) {
            if let Err(refused) = self.ask(k, task, RateRequest::Reserve(*wanted)) {
                k.tasks[task as usize].was_refused = true;
                k.emit(What::Refused {
                    task,
                    text: refused.text,
                    is_reservation: true,
                });
            }
        }
    }
}

/// The first task that was made from that of the setup and has not ended.
fn living(k: &Kernel, index: usize) -> Result<TaskId, Refusal> {
    let found = k.tasks.iter().find(|task| task.of == index && task.enabled);
    let name = || &k.setup.tasks[index].name;
    found
        .map(|task| task.id)
        .ok_or_else(|| refusal(format!("{} does not run now", name())))
}
