// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the daemon does: domains, clients and their pages, joining and leaving.

use super::Consort;
use crate::ffi::{
    self, consort_mapping, consort_slot, CONSORT_ABI_MAGIC, CONSORT_ABI_VERSION,
    CONSORT_JOIN_PREEMPT, CONSORT_MAPPING_BYTES, CONSORT_NEVER, CONSORT_ORDER_PROGRAM,
    CONSORT_PRIORITY_NONE,
};
use crate::kernel::Kernel;
use crate::trace::TaskId;
use std::collections::VecDeque;

/// Each program has one thread: its slot is the first of its page.
const SLOT: u32 = 0;

struct Client {
    number: u32,
    mapping: Box<consort_mapping>,
    domain: usize,
    keys_compare: bool,
    is_member: bool,
}

#[derive(Default)]
pub(super) struct Members {
    /// By task.
    clients: Vec<Option<Client>>,
    /// The scheduler's numbers of the setup's domains; 0: could not be made.
    domains: Vec<u32>,
    free_numbers: VecDeque<u32>,
    numbers_used: u32,
}

impl Members {
    fn client(&mut self, task: TaskId) -> Option<&mut Client> {
        self.clients.get_mut(task as usize)?.as_mut()
    }

    pub fn slot(&mut self, task: TaskId) -> Option<(*mut consort_slot, bool)> {
        let client = self.client(task)?;
        let is_attached = client.mapping.page.header.attached != 0;
        (client.is_member && is_attached).then(|| {
            (
                std::ptr::from_mut(&mut client.mapping.page.slots[SLOT as usize]),
                client.keys_compare,
            )
        })
    }

    /// The scheduler's number of a domain; 0: there is none.
    pub fn number_of(&self, domain: usize) -> u32 {
        self.domains.get(domain).copied().unwrap_or_default()
    }

    pub fn forget_domain(&mut self, domain: usize) {
        self.domains[domain] = 0;
    }

    /// A number that was given back is used again, the longest unused first.
    pub fn take_number(&mut self) -> u32 {
        if let Some(number) = self.free_numbers.pop_front() {
            return number;
        }
        self.numbers_used += 1;
        self.numbers_used
    }
}

pub(super) fn new_mapping() -> Box<consort_mapping> {
    let slot = consort_slot {
        due_ns: CONSORT_NEVER as u64,
        priority: CONSORT_PRIORITY_NONE,
        yield_by_ns: CONSORT_NEVER as u64,
        other_due_ns: CONSORT_NEVER as u64,
        other_priority: CONSORT_PRIORITY_NONE,
        ..consort_slot::default()
    };
    let mut mapping = Box::<consort_mapping>::default();
    let page = &mut mapping.page;
    page.slots.fill(slot);
    page.header.magic = CONSORT_ABI_MAGIC;
    page.header.version = CONSORT_ABI_VERSION;
    page.header.attached = 1;
    page.header.bytes = CONSORT_MAPPING_BYTES;
    mapping
}

impl Consort {
    pub(super) fn create_domains(&mut self, k: &mut Kernel) {
        let setup = std::rc::Rc::clone(&k.setup);
        for domain in &setup.domains {
            let mut args = ffi::consort_domain_args {
                order: domain.order,
                flags: if domain.preempt {
                    CONSORT_JOIN_PREEMPT
                } else {
                    0
                },
                event_ns: domain.event_ns,
                ..Default::default()
            };
            self.enter_free(k);
            if let Some(create) = self.scheduler.domain_create {
                // SAFETY: the argument is the program's own struct.
                unsafe { create(&mut args) };
            }
            self.members
                .domains
                .push(if args.error == 0 { args.domain } else { 0 });
        }
    }

    pub(super) fn join_domain(&mut self, k: &mut Kernel, task: TaskId, domain: usize) -> bool {
        let number = self.members.domains[domain];
        if number == 0 || self.members.client(task).is_some_and(|it| it.is_member) {
            return false;
        }
        if self.members.client(task).is_none() {
            let client = Client {
                number: self.members.take_number(),
                mapping: new_mapping(),
                domain,
                keys_compare: false,
                is_member: false,
            };
            let slots = self.members.clients.len().max(task as usize + 1);
            self.members.clients.resize_with(slots, || None);
            self.members.clients[task as usize] = Some(client);
        }
        let keys_compare = k.setup.domains[domain].order == CONSORT_ORDER_PROGRAM;
        let Some(client) = self.members.client(task) else {
            return false;
        };
        client.mapping.page.slots[SLOT as usize] = new_mapping().page.slots[SLOT as usize];
        let mut args = ffi::consort_join_args {
            tid: k.tasks[task as usize].c.pid,
            domain: number,
            client: client.number,
            slot: SLOT,
            ..Default::default()
        };
        let mapping: *mut consort_mapping = &mut *client.mapping;
        self.enter_free(k);
        if let (Some(set_page), Some(join)) = (self.scheduler.set_page, self.scheduler.join) {
            // SAFETY: the page lives until the client is forgotten; the argument is the program's own.
            unsafe {
                set_page(args.client, mapping);
                join(&mut args);
            }
        }
        let Some(client) = self.members.client(task) else {
            return false;
        };
        client.is_member = args.error == 0;
        client.domain = domain;
        client.keys_compare = keys_compare;
        client.is_member
    }

    /// True unless the scheduler knows of no such member.
    fn call_leave(&mut self, k: &mut Kernel, task: TaskId, client: u32) -> bool {
        let mut args = ffi::consort_leave_args {
            tid: k.tasks[task as usize].c.pid,
            client,
            error: 0,
        };
        self.enter_free(k);
        if let Some(leave) = self.scheduler.leave {
            // SAFETY: the argument is the program's own struct.
            unsafe { leave(&mut args) };
        }
        args.error == 0
    }

    pub(super) fn leave_domain(&mut self, k: &mut Kernel, task: TaskId) -> Option<usize> {
        let client = self.members.client(task)?;
        if !std::mem::take(&mut client.is_member) {
            return None;
        }
        let (number, domain) = (client.number, client.domain);
        self.call_leave(k, task, number).then_some(domain)
    }

    /// The daemon has noticed that a program ended.
    pub(super) fn forget(&mut self, k: &mut Kernel, task: TaskId) {
        let Some(client) = self.members.client(task) else {
            return;
        };
        client.is_member = false;
        let number = client.number;
        self.call_leave(k, task, number);
        if let Some(set_page) = self.scheduler.set_page {
            // SAFETY: takes the page out; nobody is inside a callback that has just looked it up, since those
            // do not let go of the CPU while they use it.
            unsafe { set_page(number, std::ptr::null_mut()) };
        }
        self.members.free_numbers.push_back(number);
        // The page stays: a callback of another CPU may still be using it.
    }

    /// At the end of a run: everybody has gone, so no domain may refuse to.
    pub(super) fn end_domains(&mut self, k: &mut Kernel) {
        for index in 0..self.members.domains.len() {
            let domain = self.members.domains[index];
            if domain == 0 {
                continue;
            }
            let mut args = ffi::consort_domain_args {
                domain,
                ..Default::default()
            };
            self.enter_free(k);
            if let Some(destroy) = self.scheduler.domain_destroy {
                // SAFETY: the argument is the program's own struct.
                unsafe { destroy(&mut args) };
            }
            if args.error != 0 {
                let detail = format!("domain {domain} cannot be removed: errno {}", args.error);
                k.violate("leak", detail);
            }
        }
    }
}
