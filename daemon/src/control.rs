// SPDX-License-Identifier: MIT OR Apache-2.0
//! CONTROL requests: what the consort command says, in JSON.
//!
//! | request | who | answer |
//! | --- | --- | --- |
//! | `{"command": "status"}` | anybody | [`crate::status::Status`] |
//! | `{"command": "domains", "after": N}` | anybody; strangers' only for root | [`crate::status::DomainPage`] |
//! | `{"command": "clients", "after": N}` | anybody; strangers' only for root | [`crate::status::ClientPage`] |
//! | `{"command": "reserve", "number": N, "scope": "any"|"thread" or "cgroup": P, "class": C, "rate": R or {"least": R, "most": R}, "period_ns": N}` | owner, root | the reservation: [`crate::division::ReservationStatus`] |
//! | `{"command": "release", "number": N, "scope": S}` | owner, root | the reservation, as it was |
//! | `{"command": "lend", "from": N, "to": N, "rate": R}` | the lender's owner, root | [`Credited`]: both, as they are now |
//! | `{"command": "take_back", "from": N, "to": N, "rate": R}` | either's owner, root | the same |
//! | `{"command": "reservations", "after": N}` | anybody; strangers' only for root | [`crate::division::ReservationPage`] |
//! | `{"command": "classes"}` | anybody | [`crate::division::DivisionStatus`] |
//! | `{"command": "class_set", "name": C, "capacity": A, "overbooking": A, "order": O}` | root | `classes` |
//! | `{"command": "class_remove", "name": C}` | root | `classes` |
//! | `{"command": "as_file"}` | anybody | `{"text": T}`: what holds now, as the operator's file |
//! | `{"command": "group", "doing": ...}` | owner, root; strangers' are shown to root only | [`crate::groups::control`] |
//! | `{"command": "df", "doing": ...}` | owner, root; strangers' are shown to root only | [`crate::functions`] |
//! | `{"command": "hand_over"}` | root, or the daemon's user | `{}`, and all that the daemon has: [`crate::handover`] |
//! | `{"command": "set", "granularity_ns": N, "min_slice_ns": N}` | root, or the daemon's user | the tunables that hold now |
//!
//! O is "period", "frc" or "rc" ([`crate::classes::Order`]). `order`, `after` and each value of `set` may be left out. Lists come in pages, since an answer is one message.

use consort_kernel::{format_ns, TunablesChange};
use nix::{errno::Errno, unistd::geteuid};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{
    audit,
    classes::{Class, Order},
    clients::ConnectionId,
    config::{self, Amount},
    division::{DivisionStatus, ReservationPage, ReservationStatus},
    ejection::Mode,
    functions::{self, FunctionCommand},
    groups::{self, control::GroupCommand},
    lending::Back,
    peer::Peer,
    reservations::{Ask, AskedRate},
    safe,
    service::Service,
    status::{ClientPage, DomainPage, Status},
    targets::{Named, Scope},
    Refusal,
};

#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
enum Command {
    Status {},
    Domains {
        after: Option<u32>,
    },
    Clients {
        after: Option<ConnectionId>,
    },
    Set(TunablesChange),
    Reserve {
        #[serde(default)]
        number: i32,
        #[serde(default)]
        scope: Scope,
        cgroup: Option<String>,
        class: String,
        rate: AskedRate,
        period_ns: u64,
    },
    Release {
        #[serde(default)]
        number: i32,
        #[serde(default)]
        scope: Scope,
        cgroup: Option<String>,
    },
    Lend {
        from: i32,
        to: i32,
        rate: f64,
    },
    TakeBack {
        from: i32,
        to: i32,
        rate: Option<f64>,
    },
    Reservations {
        after: Option<u32>,
    },
    Classes {},
    AsFile {},
    ClassSet {
        name: String,
        capacity: Amount,
        overbooking: Option<Amount>,
        #[serde(default)]
        order: Order,
    },
    ClassRemove {
        name: String,
    },
    Group(GroupCommand),
    Df(FunctionCommand),
    HandOver {},
}

impl Command {
    /// Whether it only looks.
    fn is_a_question(&self) -> bool {
        match self {
            Command::Status {}
            | Command::Domains { .. }
            | Command::Clients { .. }
            | Command::Reservations { .. }
            | Command::Classes {}
            | Command::AsFile {} => true,
            Command::Group(command) => command.is_a_question(),
            Command::Df(command) => command.is_a_question(),
            _ => false,
        }
    }

    /// Whether it changes what everybody gets.
    fn is_the_operators(&self) -> bool {
        matches!(
            self,
            Command::Set(_)
                | Command::ClassSet { .. }
                | Command::ClassRemove { .. }
                | Command::HandOver {}
        )
    }
}

#[derive(Serialize)]
struct AsFile {
    text: String,
}

/// The answer to `lend` and `take_back`.
#[derive(Serialize)]
pub struct Credited {
    from: Option<ReservationStatus>,
    /// `null`: it had that credit only.
    to: Option<ReservationStatus>,
}

impl Credited {
    fn of(service: &Service, peer: &Peer, from: i32, to: i32) -> Credited {
        let [from, to] = [from, to].map(|number| {
            let scope = Scope::Any;
            service.reservation_of(peer, &Named::Number { number, scope })
        });
        Credited { from, to }
    }
}

fn described(class: &Class) -> String {
    let (name, capacity) = (&class.name, class.capacity());
    let (overbooking, order) = (class.overbooking, class.order);
    format!("{name}: capacity {capacity}, overbooking {overbooking}, order {order:?}")
}

fn named(number: i32, scope: Scope, cgroup: Option<String>) -> Named {
    cgroup.map_or(Named::Number { number, scope }, Named::Cgroup)
}

/// Does what `text` asks and returns the answer in JSON.
///
/// # Errors
/// EINVAL for text that is no command, EPERM, or what the scheduler refused.
pub fn answer(service: &mut Service, peer: &Peer, text: &str) -> Result<Vec<u8>, Refusal> {
    let command: Command = serde_json::from_str(text).map_err(|error| {
        let text = format!("not a control command: {error}");
        Refusal::new(Errno::EINVAL, text)
    })?;
    let may_control = peer.uid == 0 || peer.uid == geteuid().as_raw();
    let shown_uid = (!may_control).then_some(peer.uid);
    if command.is_the_operators() && !may_control {
        let text = "only root may change how everybody is scheduled: use sudo";
        return Err(Refusal::new(Errno::EPERM, text));
    }
    if service.host.mode() == Mode::Safe && !command.is_a_question() {
        return Err(safe::refusal("do that"));
    }
    let json = match command {
        Command::Status {} => serde_json::to_vec(&Status::of(service, shown_uid)?),
        Command::Domains { after } => {
            serde_json::to_vec(&DomainPage::of(service, shown_uid, after))
        }
        Command::Clients { after } => {
            serde_json::to_vec(&ClientPage::of(service, shown_uid, after))
        }
        Command::Reserve {
            number,
            scope,
            cgroup,
            class,
            rate,
            period_ns,
        } => {
            let ask = Ask {
                named: named(number, scope, cgroup),
                class,
                rate,
                period_ns,
            };
            service.reserve(peer, &ask)?;
            serde_json::to_vec(&service.reservation_of(peer, &ask.named))
        }
        Command::Release {
            number,
            scope,
            cgroup,
        } => {
            let named = named(number, scope, cgroup);
            let was = service.reservation_of(peer, &named);
            service.release(peer, &named)?;
            serde_json::to_vec(&was)
        }
        Command::Lend { from, to, rate } => {
            service.lend(peer, from, to, rate)?;
            serde_json::to_vec(&Credited::of(service, peer, from, to))
        }
        Command::TakeBack { from, to, rate } => {
            service.take_back(peer, Back { from, to, rate })?;
            serde_json::to_vec(&Credited::of(service, peer, from, to))
        }
        Command::Reservations { after } => {
            serde_json::to_vec(&ReservationPage::of(service, shown_uid, after))
        }
        Command::Classes {} => serde_json::to_vec(&DivisionStatus::of(service)),
        Command::AsFile {} => serde_json::to_vec(&AsFile {
            text: service.as_file(),
        }),
        Command::ClassSet {
            name,
            capacity,
            overbooking,
            order,
        } => {
            let cpus = service.host.cpus();
            let class = config::class(name, &capacity, overbooking.as_ref(), order, cpus)?;
            let details = described(&class);
            service.set_class(class)?;
            audit::done(service, peer, "class set", &details);
            serde_json::to_vec(&DivisionStatus::of(service))
        }
        Command::ClassRemove { name } => {
            service.remove_class(&name)?;
            audit::done(service, peer, "class remove", &name);
            serde_json::to_vec(&DivisionStatus::of(service))
        }
        Command::Group(command) => groups::control::answer(service, peer, shown_uid, command)?,
        Command::Df(command) => functions::answer(service, peer, shown_uid, command)?,
        Command::HandOver {} => {
            info!(pid = peer.pid, "another daemon takes over");
            service.hands_over = true;
            Ok(b"{}".to_vec())
        }
        Command::Set(change) => {
            let tunables = change.apply(service.host.tunables())?;
            service.host.set_tunables(tunables)?;
            let [granularity, min_slice] =
                [tunables.granularity_ns, tunables.min_slice_ns].map(format_ns);
            let details = format!("granularity {granularity}, min-slice {min_slice}");
            audit::done(service, peer, "set", &details);
            serde_json::to_vec(&tunables)
        }
    };
    json.map_err(|error| Refusal::new(Errno::EIO, format!("cannot write the answer: {error}")))
}
