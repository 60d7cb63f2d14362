// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the scheduler's own programs that a daemon might make, right and wrong ones.

use super::Consort;
use crate::ffi::{
    consort_classes_args, consort_domain_args, consort_join_args, consort_leave_args,
    consort_reservation_args,
};
use crate::kernel::Kernel;
use crate::setup::{Call, TaskIndex};
use consort_rates::classes::Order;

/// Until the threads of a reservation that ends have left it.
const END_TURNS_MAX: u32 = 100;
const PERIOD_NS: u64 = 30_000_000;
const EAGAIN: u32 = 11;
const ENOENT: u32 = 2;

type ReservationCall =
    Option<unsafe extern "C" fn(*mut consort_reservation_args) -> std::ffi::c_int>;

impl Consort {
    pub(super) fn make_call(&mut self, k: &mut Kernel, call: &Call) {
        match call {
            Call::Classes {
                capacities,
                orders,
                flexible,
            } => self.set_classes(k, capacities, orders, *flexible),
            Call::Reserve { class, rate } => self.reserve(k, *class, *rate),
            Call::ChangeReservation {
                reservation,
                class,
                rate,
            } => {
                let args = consort_reservation_args {
                    class: *class,
                    rate: *rate,
                    period_ns: PERIOD_NS,
                    ..self.reservation(*reservation)
                };
                self.call_reservation(k, self.scheduler.reservation_change, args);
                self.call_reservation(k, self.scheduler.reservation_usage, args);
            }
            Call::AddToReservation { reservation, task } => {
                let args = consort_reservation_args {
                    tid: pid_of(k, *task),
                    ..self.reservation(*reservation)
                };
                self.add_one_who_has_gone(k, args);
                self.call_reservation(k, self.scheduler.reservation_add, args);
            }
            Call::EndReservation { reservation } => {
                let args = self.reservation(*reservation);
                self.call_reservation(k, self.scheduler.reservation_end, args);
            }
            Call::Join { task, domain, slot } => self.join_raw(k, *task, *domain, *slot),
            Call::Leave { task } => {
                let mut args = consort_leave_args {
                    tid: pid_of(k, *task),
                    ..Default::default()
                };
                self.enter_free(k);
                if let Some(leave) = self.scheduler.leave {
                    // SAFETY: the argument is the program's own struct.
                    unsafe { leave(&mut args) };
                }
            }
            Call::Role { group, role, what } => self.call_of_role(k, *group, *role, what),
            Call::PutUser { number, user } => k.users.put(*number, *user),
            Call::SetUser { group, number } => {
                let id = self.group_number(*group);
                self.call_user(k, id, *number);
            }
            Call::DestroyDomain(domain) => {
                let mut args = consort_domain_args {
                    domain: self.members.number_of(*domain),
                    ..Default::default()
                };
                self.enter_free(k);
                if let Some(destroy) = self.scheduler.domain_destroy {
                    // SAFETY: as above.
                    unsafe { destroy(&mut args) };
                }
                if args.error == 0 {
                    self.members.forget_domain(*domain);
                }
            }
        }
    }

    fn set_classes(&mut self, k: &mut Kernel, capacities: &[u32], orders: &[Order], flexible: u32) {
        // SAFETY: the scheduler's variable, which only its daemon writes.
        let table = unsafe { &mut *self.scheduler.class_table };
        table.capacity.fill(0);
        for (to, from) in table.capacity.iter_mut().zip(capacities) {
            *to = *from;
        }
        table.order.fill(0);
        for (to, from) in table.order.iter_mut().zip(orders) {
            *to = *from as u8;
        }
        table.flexible = flexible;
        let mut args = consort_classes_args::default();
        self.enter_free(k);
        if let Some(classes) = self.scheduler.classes {
            // SAFETY: the argument is the program's own struct.
            unsafe { classes(&mut args) };
        }
    }

    fn reserve(&mut self, k: &mut Kernel, class: u32, rate: u32) {
        let args = consort_reservation_args {
            class,
            rate,
            period_ns: PERIOD_NS,
            ..Default::default()
        };
        let made = self.call_reservation(k, self.scheduler.reservation_create, args);
        if made.error == 0 {
            self.reservations.push(made.reservation);
        }
    }

    /// Of those that were made, or one that was not.
    fn reservation(&self, index: usize) -> consort_reservation_args {
        consort_reservation_args {
            reservation: self.reservations.get(index).copied().unwrap_or_default(),
            ..Default::default()
        }
    }

    fn call_reservation(
        &mut self,
        k: &mut Kernel,
        call: ReservationCall,
        mut args: consort_reservation_args,
    ) -> consort_reservation_args {
        self.enter_free(k);
        if let Some(call) = call {
            // SAFETY: the argument is the program's own struct.
            unsafe { call(&mut args) };
        }
        args
    }

    /// The daemon means a thread that has ended, and whose number this one has got.
    fn add_one_who_has_gone(&mut self, k: &mut Kernel, args: consort_reservation_args) {
        let gone = consort_reservation_args {
            start_ticks: u64::MAX,
            ..args
        };
        let added = self.call_reservation(k, self.scheduler.reservation_add, gone);
        if added.error == 0 {
            k.violate(
                "refusal",
                "a thread has a reservation for having somebody else's number".to_owned(),
            );
        }
    }

    fn join_raw(&mut self, k: &mut Kernel, task: TaskIndex, domain: usize, slot: u32) {
        let mut args = consort_join_args {
            tid: pid_of(k, task),
            domain: self.members.number_of(domain),
            client: u32::MAX,
            slot,
            ..Default::default()
        };
        self.enter_free(k);
        if let Some(join) = self.scheduler.join {
            // SAFETY: as above.
            unsafe { join(&mut args) };
        }
        if args.error == 0 {
            k.violate(
                "refusal",
                "a client that there is not has joined".to_owned(),
            );
        }
    }

    /// At the end of a run: nobody uses a reservation or a class any more.
    pub(super) fn end_reservations(&mut self, k: &mut Kernel) {
        for index in 0..self.reservations.len() {
            let args = self.reservation(index);
            let mut error = EAGAIN;
            for _ in 0..END_TURNS_MAX {
                if error == EAGAIN {
                    error = self
                        .call_reservation(k, self.scheduler.reservation_end, args)
                        .error;
                }
            }
            if error != 0 && error != ENOENT {
                let detail = format!(
                    "reservation {} does not end: errno {error}",
                    args.reservation
                );
                k.violate("leak", detail);
            }
        }
        self.reservations.clear();
        self.set_classes(k, &[], &[], 1 << 20);
    }
}

/// Of the first living instance of a task; a number that nobody has, if there is none.
fn pid_of(k: &Kernel, task: TaskIndex) -> i32 {
    let mut tasks = k.tasks.iter();
    tasks
        .find(|it| it.of == task && it.life != crate::kernel::Life::Dead)
        .map_or(i32::MAX, |it| it.c.pid)
}
