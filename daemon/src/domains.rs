// SPDX-License-Identifier: MIT OR Apache-2.0
//! Domains: their names, their options and how many members they have.
//!
//! A name belongs to a user: `video` of one user and `video` of another are two domains, so nobody enters a
//! stranger's. A domain is made by the first thread that joins it and goes with the last one.

use std::collections::HashMap;

use consort_abi::{
    CONSORT_EVENT_MAX_NS, CONSORT_EVENT_MIN_NS, CONSORT_JOIN_PREEMPT, CONSORT_NAME_MAX,
    CONSORT_ORDER_PROGRAM, CONSORT_ORDER_PROGRESS, CONSORT_ORDER_SERVICE,
};
use consort_kernel::DomainOptions;
use nix::errno::Errno;

use crate::Refusal;

#[derive(Debug, Clone)]
pub struct Domain {
    pub uid: u32,
    /// `None`: private, with one member.
    pub name: Option<String>,
    /// With the event's length filled in.
    pub options: DomainOptions,
    pub members: usize,
}

#[derive(Debug, Default)]
pub struct Domains {
    by_id: HashMap<u32, Domain>,
    by_name: HashMap<(u32, String), u32>,
}

impl Domains {
    pub fn find(&self, uid: u32, name: &str) -> Option<u32> {
        self.by_name.get(&(uid, name.to_owned())).copied()
    }

    pub fn get(&self, id: u32) -> Option<&Domain> {
        self.by_id.get(&id)
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Domain> {
        self.by_id.get_mut(&id)
    }

    pub fn insert(&mut self, id: u32, domain: Domain) {
        if let Some(name) = &domain.name {
            self.by_name.insert((domain.uid, name.clone()), id);
        }
        self.by_id.insert(id, domain);
    }

    pub fn remove(&mut self, id: u32) -> Option<Domain> {
        let domain = self.by_id.remove(&id)?;
        if let Some(name) = &domain.name {
            self.by_name.remove(&(domain.uid, name.clone()));
        }
        Some(domain)
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// All domains, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Domain)> {
        self.by_id.iter().map(|(id, domain)| (*id, domain))
    }
}

/// Reads a domain's name; `None` is a private domain.
///
/// # Errors
/// ENAMETOOLONG; EINVAL when it has '/' or anything but visible ASCII characters: names go to logs and terminals.
pub fn parse_name(name: &[u8]) -> Result<Option<String>, Refusal> {
    if name.is_empty() {
        return Ok(None);
    }
    let max = CONSORT_NAME_MAX as usize;
    if name.len() > max {
        let text = format!(
            "a domain's name of {} bytes is too long: expected at most {max}",
            name.len()
        );
        return Err(Refusal::new(Errno::ENAMETOOLONG, text));
    }
    let bad = name
        .iter()
        .find(|byte| **byte == b'/' || !byte.is_ascii_graphic());
    if let Some(byte) = bad {
        let text = format!(
            "a domain's name has the byte {byte:#04x}: expected letters, digits and punctuation of ASCII without '/', no spaces"
        );
        return Err(Refusal::new(Errno::EINVAL, text));
    }
    Ok(Some(name.iter().map(|byte| char::from(*byte)).collect()))
}

/// Checks the options that a program names.
///
/// # Errors
/// EINVAL for an unknown order or flag, ERANGE for an event's length.
pub fn check_options(options: DomainOptions) -> Result<(), Refusal> {
    let events_ns = u64::from(CONSORT_EVENT_MIN_NS)..=u64::from(CONSORT_EVENT_MAX_NS);
    if options.event_ns != 0 && !events_ns.contains(&options.event_ns) {
        let text = format!(
            "event_ns {} is out of range: expected {} to {}, or 0 for the longest",
            options.event_ns,
            events_ns.start(),
            events_ns.end()
        );
        return Err(Refusal::new(Errno::ERANGE, text));
    }
    if order_name(options.order).is_none() {
        let text = format!(
            "unknown order {}: expected 0 (the program's), 1 (progress) or 2 (service)",
            options.order
        );
        return Err(Refusal::new(Errno::EINVAL, text));
    }
    let unknown = options.flags & !CONSORT_JOIN_PREEMPT;
    if unknown != 0 {
        let text = format!(
            "unknown join flags {unknown:#x}: expected 0 or {CONSORT_JOIN_PREEMPT:#x} (preempt)"
        );
        return Err(Refusal::new(Errno::EINVAL, text));
    }
    Ok(())
}

/// The options of a new domain: what the program left open is filled in.
pub fn complete(options: DomainOptions) -> DomainOptions {
    let event_ns = match options.event_ns {
        0 => u64::from(CONSORT_EVENT_MAX_NS),
        chosen => chosen,
    };
    DomainOptions {
        event_ns,
        ..options
    }
}

impl Domain {
    /// Checks that a later member wants the domain as it is.
    ///
    /// # Errors
    /// EINVAL, naming the first option that differs.
    pub fn check_same(&self, wanted: DomainOptions) -> Result<(), Refusal> {
        let have = self.options;
        let difference = if wanted.event_ns != 0 && wanted.event_ns != have.event_ns {
            format!("event_ns {}, not {}", have.event_ns, wanted.event_ns)
        } else if wanted.order != have.order {
            let name = |order| order_name(order).unwrap_or("unknown");
            format!("order {}, not {}", name(have.order), name(wanted.order))
        } else if wanted.flags != have.flags {
            format!("flags {:#x}, not {:#x}", have.flags, wanted.flags)
        } else {
            return Ok(());
        };
        let name = self.name.as_deref().unwrap_or("(private)");
        Err(Refusal::new(
            Errno::EINVAL,
            format!("domain {name} exists with {difference}: ask for the same options, or use another name"),
        ))
    }
}

/// The word for an `enum consort_order`; `None` when it is not one.
pub fn order_name(order: u32) -> Option<&'static str> {
    match order {
        CONSORT_ORDER_PROGRAM => Some("program"),
        CONSORT_ORDER_PROGRESS => Some("progress"),
        CONSORT_ORDER_SERVICE => Some("service"),
        _ => None,
    }
}
