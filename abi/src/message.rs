// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Messages as values and as bytes, for all who send or receive them. What each field of a request means, for each type of
//! request, is said here and nowhere else.

use crate::{
    consort_reply, consort_request, consort_usage_reply, CONSORT_ABI_MAGIC, CONSORT_ANNOUNCE,
    CONSORT_CONTROL, CONSORT_HELLO, CONSORT_JOIN, CONSORT_LEAVE, CONSORT_LEND, CONSORT_NAME_MAX,
    CONSORT_RECOLLECT, CONSORT_RELEASE, CONSORT_RESERVE, CONSORT_TEXT_MAX, CONSORT_USAGE,
};
use std::ffi::c_char;
use std::mem::{offset_of, size_of};

/// Bytes of a name, without the final 0.
pub const NAME_MAX: usize = CONSORT_NAME_MAX as usize;
const NAME_BYTES: usize = NAME_MAX + 1;
const TEXT_BYTES: usize = CONSORT_TEXT_MAX as usize;

/// One request, as whoever sends it means it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The versions of messages that the sender speaks; both 0: it speaks 1.
    Hello {
        greatest: u32,
        least: u32,
    },
    Join(Join),
    Leave {
        tid: i32,
        slot: u32,
    },
    /// Its JSON text follows.
    Control,
    Reserve {
        /// Of a process or thread; 0: the sender's process.
        number: i32,
        /// enum consort_reserve_flags, in the next ones, too.
        flags: u32,
        class: Name,
        /// Of one CPU.
        millionths: u32,
        period_ns: u64,
    },
    Release {
        number: i32,
        flags: u32,
    },
    Lend {
        to: i32,
        millionths: u32,
    },
    Recollect {
        to: i32,
        /// 0: all.
        millionths: u32,
    },
    Usage {
        number: i32,
        flags: u32,
    },
    Announce {
        tid: i32,
        slot: u32,
        name: Name,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Join {
    /// As the program sees its thread; 0 is its only thread.
    pub tid: i32,
    pub slot: u32,
    /// 0: the scheduler chooses.
    pub event_ns: u64,
    /// enum consort_order.
    pub order: u32,
    /// enum consort_join_flags.
    pub flags: u32,
    /// Empty: a private domain.
    pub domain: Name,
}

/// Of a domain, a class or a thread: the bytes before the first 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name([c_char; NAME_BYTES]);

impl Name {
    /// `None` for one that is too long.
    pub fn new(name: &str) -> Option<Name> {
        let mut bytes = [0; NAME_BYTES];
        if name.len() >= bytes.len() {
            return None;
        }
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from as c_char;
        }
        Some(Name(bytes))
    }

    /// `None`: it has no end.
    pub fn bytes(&self) -> Option<impl Iterator<Item = u8> + '_> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        Some(self.0[..end].iter().map(|byte| *byte as u8))
    }

    /// Whether there is anything but 0 behind its end.
    pub fn goes_on(&self) -> bool {
        let from_end = self.0.iter().skip_while(|byte| **byte != 0);
        from_end.into_iter().any(|byte| *byte != 0)
    }
}

impl Request {
    /// enum consort_request_type.
    pub fn kind(&self) -> u16 {
        let kind = match self {
            Request::Hello { .. } => CONSORT_HELLO,
            Request::Join(_) => CONSORT_JOIN,
            Request::Leave { .. } => CONSORT_LEAVE,
            Request::Control => CONSORT_CONTROL,
            Request::Reserve { .. } => CONSORT_RESERVE,
            Request::Release { .. } => CONSORT_RELEASE,
            Request::Lend { .. } => CONSORT_LEND,
            Request::Recollect { .. } => CONSORT_RECOLLECT,
            Request::Usage { .. } => CONSORT_USAGE,
            Request::Announce { .. } => CONSORT_ANNOUNCE,
        };
        kind as u16
    }

    /// In a version of messages; what the request does not use is 0.
    pub fn encode(&self, version: u16) -> consort_request {
        let head = consort_request {
            magic: CONSORT_ABI_MAGIC,
            version,
            type_: self.kind(),
            ..consort_request::default()
        };
        match *self {
            Request::Hello { greatest, least } => consort_request {
                slot: greatest,
                order: least,
                ..head
            },
            Request::Join(join) => consort_request {
                tid: join.tid,
                slot: join.slot,
                event_ns: join.event_ns,
                order: join.order,
                flags: join.flags,
                domain: join.domain.0,
                ..head
            },
            Request::Leave { tid, slot } => consort_request { tid, slot, ..head },
            Request::Control => head,
            Request::Reserve {
                number,
                flags,
                class,
                millionths,
                period_ns,
            } => consort_request {
                tid: number,
                flags,
                domain: class.0,
                order: millionths,
                event_ns: period_ns,
                ..head
            },
            Request::Release { number, flags } | Request::Usage { number, flags } => {
                consort_request {
                    tid: number,
                    flags,
                    ..head
                }
            }
            Request::Lend { to, millionths } | Request::Recollect { to, millionths } => {
                consort_request {
                    tid: to,
                    order: millionths,
                    ..head
                }
            }
            Request::Announce { tid, slot, name } => consort_request {
                tid,
                slot,
                domain: name.0,
                ..head
            },
        }
    }

    /// `None` for a type that does not exist. Magic and version are not looked at, nor fields that it does not use.
    pub fn decode(raw: &consort_request) -> Option<Request> {
        let (tid, slot, flags, name) = (raw.tid, raw.slot, raw.flags, Name(raw.domain));
        Some(match u32::from(raw.type_) {
            CONSORT_HELLO => Request::Hello {
                greatest: slot,
                least: raw.order,
            },
            CONSORT_JOIN => Request::Join(Join {
                tid,
                slot,
                event_ns: raw.event_ns,
                order: raw.order,
                flags,
                domain: name,
            }),
            CONSORT_LEAVE => Request::Leave { tid, slot },
            CONSORT_CONTROL => Request::Control,
            CONSORT_RESERVE => Request::Reserve {
                number: tid,
                flags,
                class: name,
                millionths: raw.order,
                period_ns: raw.event_ns,
            },
            CONSORT_RELEASE => Request::Release { number: tid, flags },
            CONSORT_LEND => Request::Lend {
                to: tid,
                millionths: raw.order,
            },
            CONSORT_RECOLLECT => Request::Recollect {
                to: tid,
                millionths: raw.order,
            },
            CONSORT_USAGE => Request::Usage { number: tid, flags },
            CONSORT_ANNOUNCE => Request::Announce { tid, slot, name },
            _ => return None,
        })
    }

    /// The first field of `raw`, which was decoded to this, that is set and means nothing in such a request.
    pub fn unused(&self, raw: &consort_request) -> Option<&'static str> {
        let used = self.encode(raw.version);
        let fields = [
            ("tid", used.tid != raw.tid),
            ("slot", used.slot != raw.slot),
            ("event_ns", used.event_ns != raw.event_ns),
            ("order", used.order != raw.order),
            ("flags", used.flags != raw.flags),
            ("domain", used.domain != raw.domain),
        ];
        let found = fields.into_iter().find(|(_, differs)| *differs);
        found.map(|(name, _)| name)
    }
}

/// A structure of integers without padding, to bytes and back: in the machine's byte order.
macro_rules! bytes {
    ($type:ident, $($field:ident),*) => {
        impl $type {
            pub const BYTES: usize = size_of::<$type>();

            pub fn to_bytes(&self) -> [u8; Self::BYTES] {
                let mut bytes = [0; Self::BYTES];
                $(self.$field.put(&mut bytes[offset_of!($type, $field)..]);)*
                bytes
            }

            /// `None`: too few. What is behind the structure is not looked at.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let bytes = bytes.get(..Self::BYTES)?;
                let mut value = Self::default();
                $(value.$field.get(&bytes[offset_of!($type, $field)..]);)*
                Some(value)
            }
        }

        const _: () = assert!(
            $type::BYTES == 0 $(+ size_of_field(|value: &$type| &value.$field))*,
            "it has padding, or a field that is not named here"
        );
    };
}

const fn size_of_field<S, F>(_: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

trait Field {
    fn put(&self, bytes: &mut [u8]);
    fn get(&mut self, bytes: &[u8]);
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Field for $integer {
            fn put(&self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_ne_bytes());
            }

            fn get(&mut self, bytes: &[u8]) {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(&bytes[..size_of::<Self>()]);
                *self = Self::from_ne_bytes(own);
            }
        }
    )*};
}

integers!(i8, u8, u16, i32, u32, u64);

impl<T: Field, const N: usize> Field for [T; N] {
    fn put(&self, bytes: &mut [u8]) {
        let parts = bytes.chunks_exact_mut(size_of::<T>());
        self.iter().zip(parts).for_each(|(one, part)| one.put(part));
    }

    fn get(&mut self, bytes: &[u8]) {
        let parts = bytes.chunks_exact(size_of::<T>());
        self.iter_mut()
            .zip(parts)
            .for_each(|(one, part)| one.get(part));
    }
}

impl Field for consort_reply {
    fn put(&self, bytes: &mut [u8]) {
        bytes[..Self::BYTES].copy_from_slice(&self.to_bytes());
    }

    fn get(&mut self, bytes: &[u8]) {
        *self = Self::from_bytes(bytes).unwrap_or_default();
    }
}

bytes!(
    consort_request,
    magic,
    version,
    type_,
    tid,
    slot,
    event_ns,
    order,
    flags,
    domain
);
bytes!(consort_reply, magic, version, type_, error, client, text);
bytes!(
    consort_usage_reply,
    reply,
    asked,
    lent,
    held,
    given,
    used,
    suggested,
    late_s,
    threads
);

/// The longest start of `text` that fits into `bytes_max` bytes and ends between characters.
pub fn cut_text(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl consort_reply {
    /// What was wrong, what was expected, what to do.
    pub fn said(&self) -> impl Iterator<Item = u8> + '_ {
        let bytes = self.text.iter().map(|byte| *byte as u8);
        bytes.take_while(|byte| *byte != 0)
    }

    /// Text as far as there is room; it ends between characters.
    pub fn say(&mut self, text: &str) {
        self.text = [0; TEXT_BYTES];
        let room = self.text.iter_mut();
        for (to, from) in room.zip(cut_text(text, TEXT_BYTES - 1).bytes()) {
            *to = from as c_char;
        }
    }
}

#[cfg(test)]
mod tests;
