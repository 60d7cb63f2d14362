// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages as bytes: the shape of a request is checked here, its meaning in [`crate::requests`].

use std::{ops::RangeInclusive, os::fd::OwnedFd};

use consort_abi::{
    consort_reply, consort_request, consort_usage_reply,
    message::{self, Name, Request as Raw},
    CONSORT_ABI_MAGIC, CONSORT_RATE_ONE_CPU, CONSORT_RESERVE_THREAD, CONSORT_WIRE_VERSION,
    CONSORT_WIRE_VERSION_LEAST,
};
use consort_groups::FILE_BYTES_MAX;
use nix::errno::Errno;

use crate::{
    reservations::{Ask, AskedRate},
    targets::{Named, Scope},
    Refusal,
};

pub const REQUEST_BYTES: usize = consort_request::BYTES;
pub const REPLY_BYTES: usize = consort_reply::BYTES;
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
    let Some(raw) = consort_request::from_bytes(bytes) else {
        let text = format!("a message of {length} bytes is cut short: expected {REQUEST_BYTES}");
        return Err(fatal(Errno::EPROTO, text));
    };
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
    let request = Raw::decode(&raw);
    let version = version_of(raw.version, request.as_ref()).map_err(|text| Malformed {
        // Neither side can do better than the one that all know.
        version: CONSORT_WIRE_VERSION_LEAST as u16,
        ..malformed(Errno::EPROTO, true, text)
    })?;
    let rest = &bytes[REQUEST_BYTES..];
    let grows = raw.version >= 2;
    if request != Some(Raw::Control) {
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
        // Fields that a request does not use have no meaning yet: whoever sets them expects what this daemon does not know.
        let unused = request.as_ref().filter(|_| grows);
        if let Some(name) = unused.and_then(|request| request.unused(&raw)) {
            let kind = raw.type_;
            let text = format!("{name} means nothing in a request of type {kind}: expected 0");
            return Err(malformed(Errno::EINVAL, false, text));
        }
    }
    let refuse = |(errno, text)| malformed(errno, false, text);
    let request = match request {
        Some(request) => decode(&request, rest, grows).map_err(refuse)?,
        None => {
            let kind = raw.type_;
            let text = format!("unknown request type {kind}: expected 1 (hello) to 10 (announce)");
            return Err(refuse((Errno::EOPNOTSUPP, text)));
        }
    };
    Ok(Message { version, request })
}

/// The version to answer in; HELLO chooses the greatest that both sides speak.
fn version_of(version: u16, request: Option<&Raw>) -> Result<u16, String> {
    let own = VERSIONS;
    if !own.contains(&version.into()) {
        return Err(format!(
            "the message is of version {version} and the daemon speaks {} to {}: install a libconsort that does",
            own.start(),
            own.end()
        ));
    }
    let Some(Raw::Hello { greatest, least }) = request else {
        return Ok(version);
    };
    let (greatest, least) = ((*greatest).max(1), (*least).max(1));
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

/// What the sender's words mean here; `grows`: what has no meaning yet is refused.
fn decode(request: &Raw, rest: &[u8], grows: bool) -> Result<Request, (Errno, String)> {
    Ok(match request {
        Raw::Hello { .. } => Request::Hello,
        Raw::Join(join) => Request::Join(Join {
            tid: join.tid,
            slot: join.slot,
            event_ns: join.event_ns,
            order: join.order,
            flags: join.flags,
            domain: name_in(&join.domain, "the name", grows)?,
        }),
        Raw::Leave { tid, slot } => Request::Leave {
            tid: *tid,
            slot: *slot,
        },
        Raw::Announce { tid, slot, name } => Request::Announce {
            tid: *tid,
            slot: *slot,
            name: name_in(name, "the name", grows)?,
        },
        Raw::Control => match std::str::from_utf8(rest) {
            Ok(text) => Request::Control {
                text: text.to_owned(),
            },
            Err(_) => {
                let text = "the control text is not UTF-8: expected JSON".to_owned();
                return Err((Errno::EINVAL, text));
            }
        },
        Raw::Reserve {
            number,
            flags,
            class,
            millionths,
            period_ns,
        } => {
            let class = name_in(class, "the class' name", grows)?;
            Request::Reserve(Ask {
                named: Named::Number {
                    number: *number,
                    scope: scope(*flags)?,
                },
                class: String::from_utf8_lossy(&class).into_owned(),
                rate: AskedRate::Fixed(rate(*millionths)),
                period_ns: *period_ns,
            })
        }
        Raw::Release { number, flags } => Request::Release {
            number: *number,
            scope: scope(*flags)?,
        },
        Raw::Lend { to, millionths } => Request::Lend {
            to: *to,
            rate: rate(*millionths),
        },
        Raw::Recollect { to, millionths } => Request::Recollect {
            to: *to,
            rate: (*millionths != 0).then(|| rate(*millionths)),
        },
        Raw::Usage { number, flags } => Request::Usage {
            number: *number,
            scope: scope(*flags)?,
        },
    })
}

fn name_in(name: &Name, what: &str, grows: bool) -> Result<Vec<u8>, (Errno, String)> {
    match name.bytes() {
        Some(_) if grows && name.goes_on() => {
            let text = format!("{what} goes on after its end: expected 0 in all bytes behind it");
            Err((Errno::EINVAL, text))
        }
        Some(bytes) => Ok(bytes.collect()),
        None => {
            let most = message::NAME_MAX;
            let text = format!("{what} has no end: expected at most {most} bytes and a 0");
            Err((Errno::ENAMETOOLONG, text))
        }
    }
}

/// A part of one CPU.
fn rate(millionths: u32) -> f64 {
    f64::from(millionths) / f64::from(CONSORT_RATE_ONE_CPU)
}

fn scope(flags: u32) -> Result<Scope, (Errno, String)> {
    match flags {
        0 => Ok(Scope::Any),
        CONSORT_RESERVE_THREAD => Ok(Scope::Thread),
        other => {
            let text = format!(
                "unknown reserve flags {other:#x}: expected 0 or {CONSORT_RESERVE_THREAD:#x} (thread)"
            );
            Err((Errno::EINVAL, text))
        }
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
        let mut raw = consort_reply {
            magic: CONSORT_ABI_MAGIC,
            version: self.version.max(CONSORT_WIRE_VERSION_LEAST as u16),
            type_: self.kind,
            error: self.error,
            client: self.client,
            ..consort_reply::default()
        };
        raw.say(&self.text);
        raw.to_bytes()
    }
}

/// Reads a reply, as its receiver; `None` when it is none.
pub fn parse_reply(bytes: &[u8]) -> Option<Reply> {
    let raw = consort_reply::from_bytes(bytes)?;
    if raw.magic != CONSORT_ABI_MAGIC || !VERSIONS.contains(&raw.version.into()) {
        return None;
    }
    let text: Vec<u8> = raw.said().collect();
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

/// What follows the head of a `consort_usage_reply`.
pub fn usage_rest(usage: &consort_usage_reply) -> Vec<u8> {
    usage.to_bytes()[REPLY_BYTES..].to_vec()
}

/// A CONTROL request as it is sent.
pub fn control_message(json: &str) -> Vec<u8> {
    let head = Raw::Control.encode(CONSORT_WIRE_VERSION_LEAST as u16);
    let mut message = head.to_bytes().to_vec();
    message.extend_from_slice(json.as_bytes());
    message
}

/// A request as it is sent.
pub fn request_bytes(request: consort_request) -> [u8; REQUEST_BYTES] {
    request.to_bytes()
}
