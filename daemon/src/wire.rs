// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages as bytes: the shape of a request is checked here, its meaning in [`crate::requests`].

use std::{mem::size_of, ops::RangeInclusive, os::fd::OwnedFd};

use consort_abi::{
    consort_reply, consort_request, consort_usage_reply, CONSORT_ABI_MAGIC, CONSORT_ANNOUNCE,
    CONSORT_CONTROL, CONSORT_HELLO, CONSORT_JOIN, CONSORT_LEAVE, CONSORT_LEND, CONSORT_NAME_MAX,
    CONSORT_RATE_ONE_CPU, CONSORT_RECOLLECT, CONSORT_RELEASE, CONSORT_RESERVE,
    CONSORT_RESERVE_THREAD, CONSORT_TEXT_MAX, CONSORT_USAGE, CONSORT_WIRE_VERSION,
    CONSORT_WIRE_VERSION_LEAST,
};
use consort_groups::FILE_BYTES_MAX;
use nix::errno::Errno;

use crate::{
    reservations::{Ask, AskedRate},
    targets::{Named, Scope},
    Refusal,
};

pub const REQUEST_BYTES: usize = size_of::<consort_request>();
pub const REPLY_BYTES: usize = size_of::<consort_reply>();
/// The longest JSON text after a CONTROL request: a group file, however many of its characters JSON doubles.
pub const CONTROL_TEXT_BYTES_MAX: usize = 2 * FILE_BYTES_MAX + 4096;
/// The longest answer in JSON after a CONTROL reply.
pub const ANSWER_BYTES_MAX: usize = 65536;
pub const MESSAGE_BYTES_MAX: usize = REQUEST_BYTES + CONTROL_TEXT_BYTES_MAX;

/// A request whose shape is right; its fields are still the program's claims.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Hello,
    Join(Join),
    Leave {
        tid: i32,
        slot: u32,
    },
    Control {
        text: String,
    },
    Reserve(Ask),
    Release {
        number: i32,
        scope: Scope,
    },
    Lend {
        to: i32,
        rate: f64,
    },
    /// `None`: all of it.
    Recollect {
        to: i32,
        rate: Option<f64>,
    },
    Usage {
        number: i32,
        scope: Scope,
    },
    /// The bytes before the first 0 are the name.
    Announce {
        tid: i32,
        slot: u32,
        name: Vec<u8>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// As the program sees its thread; 0 is its only thread.
    pub tid: i32,
    pub slot: u32,
    pub event_ns: u64,
    pub order: u32,
    pub flags: u32,
    /// The bytes before the first 0; empty asks for a private domain.
    pub domain: Vec<u8>,
}

/// A request, and the version of messages that it is of and is answered in.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub version: u16,
    pub request: Request,
}

/// A message that is no request. After most of them the two sides may disagree about the layout, and the
/// connection is closed.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The version and the type that the message claims, for the reply; 0 when it has none.
    pub version: u16,
    pub kind: u16,
    pub refusal: Refusal,
    pub close: bool,
}

/// The versions of messages that the daemon speaks.
const VERSIONS: RangeInclusive<u32> = CONSORT_WIRE_VERSION_LEAST..=CONSORT_WIRE_VERSION;

/// Reads one message. `length` is its true length, which exceeds `bytes` when it was too long to be received.
pub fn parse(bytes: &[u8], length: usize) -> Result<Message, Malformed> {
    let fatal = |errno, text: String| Malformed {
        version: 0,
        kind: 0,
        refusal: Refusal::new(errno, text),
        close: true,
    };
    if length > bytes.len() || length > MESSAGE_BYTES_MAX {
        let text = format!(
            "a message of {length} bytes is too long: expected at most {MESSAGE_BYTES_MAX}"
        );
        return Err(fatal(Errno::EMSGSIZE, text));
    }
    let bytes = &bytes[..length];
    if length < REQUEST_BYTES {
        let text = format!("a message of {length} bytes is cut short: expected {REQUEST_BYTES}");
        return Err(fatal(Errno::EPROTO, text));
    }
    // SAFETY: the struct has only integers, for which any bytes are a value, and enough bytes are there.
    let raw: consort_request = unsafe { bytes.as_ptr().cast::<consort_request>().read_unaligned() };
    if raw.magic != CONSORT_ABI_MAGIC {
        let text = format!(
            "magic {:#x} is not Consort's {CONSORT_ABI_MAGIC:#x}: use libconsort to talk to this socket",
            raw.magic
        );
        return Err(fatal(Errno::EPROTO, text));
    }
    let malformed = |errno, close, text: String| Malformed {
        version: raw.version,
        kind: raw.type_,
        refusal: Refusal::new(errno, text),
        close,
    };
    let version = version_of(&raw).map_err(|text| Malformed {
        // Neither side can do better than the one that all know.
        version: CONSORT_WIRE_VERSION_LEAST as u16,
        ..malformed(Errno::EPROTO, true, text)
    })?;
    let rest = &bytes[REQUEST_BYTES..];
    if u32::from(raw.type_) != CONSORT_CONTROL {
        let grows = raw.version >= 2;
        if !rest.is_empty() && !grows {
            let text = format!(
                "a message of {length} bytes is too long for its type: expected {REQUEST_BYTES}"
            );
            return Err(malformed(Errno::EMSGSIZE, true, text));
        }
        if rest.iter().any(|byte| *byte != 0) {
            let text = format!(
                "the message asks for more than this daemon knows: expected 0 after {REQUEST_BYTES} bytes"
            );
            return Err(malformed(Errno::E2BIG, false, text));
        }
        if grows {
            let refuse = |text| malformed(Errno::EINVAL, false, text);
            check_unused(&raw).map_err(refuse)?;
        }
    }
    let request = decode(&raw, rest)?;
    Ok(Message { version, request })
}

/// The version to answer in; HELLO chooses the greatest that both sides speak.
fn version_of(raw: &consort_request) -> Result<u16, String> {
    let own = VERSIONS;
    if !own.contains(&raw.version.into()) {
        return Err(format!(
            "the message is of version {} and the daemon speaks {} to {}: install a libconsort that does",
            raw.version,
            own.start(),
            own.end()
        ));
    }
    if u32::from(raw.type_) != CONSORT_HELLO {
        return Ok(raw.version);
    }
    let (greatest, least) = (raw.slot.max(1), raw.order.max(1));
    let both = greatest.min(*own.end());
    if both < least.max(*own.start()) {
        return Err(format!(
            "the program speaks versions {least} to {greatest} and the daemon {} to {}: install a libconsort that fits",
            own.start(),
            own.end()
        ));
    }
    Ok(both as u16)
}

/// Fields that a request does not use have no meaning yet: whoever sets them expects what this daemon does not know.
fn check_unused(raw: &consort_request) -> Result<(), String> {
    let kind = u32::from(raw.type_);
    let is_any = |kinds: &[u32]| kinds.contains(&kind);
    let names_nobody = is_any(&[CONSORT_HELLO]);
    let names_no_slot = !is_any(&[CONSORT_HELLO, CONSORT_JOIN, CONSORT_LEAVE, CONSORT_ANNOUNCE]);
    let takes_time = is_any(&[CONSORT_JOIN, CONSORT_RESERVE]);
    let takes_order = takes_time || is_any(&[CONSORT_HELLO, CONSORT_LEND, CONSORT_RECOLLECT]);
    let takes_flags = takes_time || is_any(&[CONSORT_RELEASE, CONSORT_USAGE]);
    let unused = [
        ("tid", names_nobody && raw.tid != 0),
        ("slot", names_no_slot && raw.slot != 0),
        ("event_ns", !takes_time && raw.event_ns != 0),
        ("order", !takes_order && raw.order != 0),
        ("flags", !takes_flags && raw.flags != 0),
        (
            "domain",
            !takes_time && kind != CONSORT_ANNOUNCE && raw.domain.iter().any(|byte| *byte != 0),
        ),
    ];
    match unused.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "{name} means nothing in a request of type {kind}: expected 0"
        )),
    }
}

fn decode(raw: &consort_request, rest: &[u8]) -> Result<Request, Malformed> {
    let refuse = |errno, text: String| {
        Err(Malformed {
            version: raw.version,
            kind: raw.type_,
            refusal: Refusal::new(errno, text),
            close: false,
        })
    };
    match u32::from(raw.type_) {
        CONSORT_HELLO => Ok(Request::Hello),
        CONSORT_JOIN => {
            let domain = match name_in(raw) {
                Ok(name) => name,
                Err(text) => return refuse(Errno::ENAMETOOLONG, text),
            };
            Ok(Request::Join(Join {
                tid: raw.tid,
                slot: raw.slot,
                event_ns: raw.event_ns,
                order: raw.order,
                flags: raw.flags,
                domain,
            }))
        }
        CONSORT_ANNOUNCE => match name_in(raw) {
            Ok(name) => Ok(Request::Announce {
                tid: raw.tid,
                slot: raw.slot,
                name,
            }),
            Err(text) => refuse(Errno::ENAMETOOLONG, text),
        },
        CONSORT_LEAVE => Ok(Request::Leave {
            tid: raw.tid,
            slot: raw.slot,
        }),
        CONSORT_CONTROL => match std::str::from_utf8(rest) {
            Ok(text) => Ok(Request::Control {
                text: text.to_owned(),
            }),
            Err(_) => refuse(
                Errno::EINVAL,
                "the control text is not UTF-8: expected JSON".to_owned(),
            ),
        },
        CONSORT_RESERVE => decode_reserve(raw),
        CONSORT_RELEASE => match scope(raw.flags) {
            Ok(scope) => Ok(Request::Release {
                number: raw.tid,
                scope,
            }),
            Err(text) => refuse(Errno::EINVAL, text),
        },
        CONSORT_LEND => Ok(Request::Lend {
            to: raw.tid,
            rate: rate(raw.order),
        }),
        CONSORT_RECOLLECT => Ok(Request::Recollect {
            to: raw.tid,
            rate: (raw.order != 0).then(|| rate(raw.order)),
        }),
        CONSORT_USAGE => match scope(raw.flags) {
            Ok(scope) => Ok(Request::Usage {
                number: raw.tid,
                scope,
            }),
            Err(text) => refuse(Errno::EINVAL, text),
        },
        other => refuse(
            Errno::EOPNOTSUPP,
            format!("unknown request type {other}: expected 1 (hello) to 10 (announce)"),
        ),
    }
}

/// The name of a domain, or of a thread.
fn name_in(raw: &consort_request) -> Result<Vec<u8>, String> {
    let name: Vec<u8> = raw.domain.iter().map(|byte| *byte as u8).collect();
    match name.iter().position(|byte| *byte == 0) {
        Some(end) => Ok(name[..end].to_vec()),
        None => Err(format!(
            "the name has no end: expected at most {} bytes and a 0",
            name.len() - 1
        )),
    }
}

fn decode_reserve(raw: &consort_request) -> Result<Request, Malformed> {
    let refuse = |errno, text: String| {
        Err(Malformed {
            version: raw.version,
            kind: raw.type_,
            refusal: Refusal::new(errno, text),
            close: false,
        })
    };
    let name: Vec<u8> = raw.domain.iter().map(|byte| *byte as u8).collect();
    let Ok(class) = std::ffi::CStr::from_bytes_until_nul(&name) else {
        let text = "the class' name has no end: expected at most 32 bytes and a 0".to_owned();
        return refuse(Errno::ENAMETOOLONG, text);
    };
    match scope(raw.flags) {
        Ok(scope) => Ok(Request::Reserve(Ask {
            named: Named::Number {
                number: raw.tid,
                scope,
            },
            class: class.to_string_lossy().into_owned(),
            rate: AskedRate::Fixed(rate(raw.order)),
            period_ns: raw.event_ns,
        })),
        Err(text) => refuse(Errno::EINVAL, text),
    }
}

/// A part of one CPU.
fn rate(millionths: u32) -> f64 {
    f64::from(millionths) / f64::from(CONSORT_RATE_ONE_CPU)
}

fn scope(flags: u32) -> Result<Scope, String> {
    match flags {
        0 => Ok(Scope::Any),
        CONSORT_RESERVE_THREAD => Ok(Scope::Thread),
        other => Err(format!(
            "unknown reserve flags {other:#x}: expected 0 or {CONSORT_RESERVE_THREAD:#x} (thread)"
        )),
    }
}

/// What goes back: always one, for every message.
#[derive(Debug, Default)]
pub struct Reply {
    /// Of messages; 0 is the least one.
    pub version: u16,
    /// The type of the request.
    pub kind: u16,
    /// 0 or a positive errno.
    pub error: i32,
    pub client: u32,
    pub text: String,
    /// HELLO: the page.
    pub page: Option<OwnedFd>,
    /// What follows the reply in the same message. CONTROL: the answer in JSON; USAGE: the rest of its struct.
    pub rest: Vec<u8>,
}

impl Reply {
    pub fn refused(kind: u16, refusal: &Refusal) -> Self {
        Reply {
            kind,
            error: refusal.errno as i32,
            text: refusal.text.clone(),
            ..Reply::default()
        }
    }

    /// The reply as it is sent: the struct, then what follows it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head().to_vec();
        bytes.extend_from_slice(&self.rest);
        bytes
    }

    fn head(&self) -> [u8; REPLY_BYTES] {
        let mut text = [0; CONSORT_TEXT_MAX as usize];
        let shown = cut_text(&self.text, text.len() - 1);
        for (to, from) in text.iter_mut().zip(shown.bytes()) {
            *to = from as std::ffi::c_char;
        }
        let raw = consort_reply {
            magic: CONSORT_ABI_MAGIC,
            version: self.version.max(CONSORT_WIRE_VERSION_LEAST as u16),
            type_: self.kind,
            error: self.error,
            client: self.client,
            text,
        };
        // SAFETY: the struct has no padding (its size is the sum of its fields, asserted below), so each of
        // its bytes is initialised.
        unsafe { std::mem::transmute::<consort_reply, [u8; REPLY_BYTES]>(raw) }
    }
}

/// Reads a reply, as its receiver; `None` when it is none.
pub fn parse_reply(bytes: &[u8]) -> Option<Reply> {
    if bytes.len() < REPLY_BYTES {
        return None;
    }
    // SAFETY: the struct has only integers, for which any bytes are a value, and enough bytes are there.
    let raw: consort_reply = unsafe { bytes.as_ptr().cast::<consort_reply>().read_unaligned() };
    if raw.magic != CONSORT_ABI_MAGIC || !VERSIONS.contains(&raw.version.into()) {
        return None;
    }
    let text: Vec<u8> = raw
        .text
        .iter()
        .map(|byte| *byte as u8)
        .take_while(|byte| *byte != 0)
        .collect();
    Some(Reply {
        version: raw.version,
        kind: raw.type_,
        error: raw.error,
        client: raw.client,
        text: String::from_utf8_lossy(&text).into_owned(),
        page: None,
        rest: bytes[REPLY_BYTES..].to_vec(),
    })
}

const USAGE_BYTES: usize = size_of::<consort_usage_reply>();
const _: () = assert!(USAGE_BYTES == REPLY_BYTES + 10 * size_of::<u32>());

/// What follows the head of a `consort_usage_reply`.
pub fn usage_rest(usage: consort_usage_reply) -> Vec<u8> {
    // SAFETY: the struct has no padding (its size is the sum of its fields, asserted above), so each of its bytes is
    // initialised.
    let bytes = unsafe { std::mem::transmute::<consort_usage_reply, [u8; USAGE_BYTES]>(usage) };
    bytes[REPLY_BYTES..].to_vec()
}

/// A CONTROL request as it is sent.
pub fn control_message(json: &str) -> Vec<u8> {
    let head = consort_request {
        magic: CONSORT_ABI_MAGIC,
        version: CONSORT_WIRE_VERSION_LEAST as u16,
        type_: CONSORT_CONTROL as u16,
        ..consort_request::default()
    };
    let mut message = request_bytes(head).to_vec();
    message.extend_from_slice(json.as_bytes());
    message
}

/// A request as it is sent.
pub fn request_bytes(request: consort_request) -> [u8; REQUEST_BYTES] {
    // SAFETY: the struct has no padding (its size is the sum of its fields, asserted below), so each of its
    // bytes is initialised.
    unsafe { std::mem::transmute::<consort_request, [u8; REQUEST_BYTES]>(request) }
}

const _: () =
    assert!(REQUEST_BYTES == 4 + 2 + 2 + 4 + 4 + 8 + 4 + 4 + CONSORT_NAME_MAX as usize + 1);
const _: () = assert!(REPLY_BYTES == 4 + 2 + 2 + 4 + 4 + CONSORT_TEXT_MAX as usize);

/// The longest start of `text` that fits into `bytes_max` bytes and ends between characters.
pub(crate) fn cut_text(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
