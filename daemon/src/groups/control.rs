// SPDX-License-Identifier: MIT OR Apache-2.0
//! CONTROL requests about groups.

use consort_groups::frames::Interval;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::{
    plan::{Move, Plan},
    show::GroupPage,
};
use consort_abi::message::cut_text;

use crate::{pages::first_page, peer::Peer, service::Service, Refusal};

#[derive(Debug, Deserialize)]
#[serde(tag = "doing", rename_all = "snake_case")]
pub enum GroupCommand {
    /// `name`: what the file is called that says nothing of that; `only_look`: tell what would change.
    Apply {
        name: String,
        text: String,
        #[serde(default)]
        only_look: bool,
    },
    /// `uid`: of somebody else's, by root.
    Delete {
        name: String,
        uid: Option<u32>,
    },
    /// The asking process, and what it will become, is called so.
    Name {
        name: String,
    },
    /// A plan for a member: delays from one interval's start to the next one's, and lengths, one for all if they are the
    /// same. It begins anew `repeat_ns` after its beginning; 0: it does not. `anyway`: beyond the group's rate, too.
    PlanLoad {
        member: String,
        delays_ns: Vec<u64>,
        lengths_ns: Vec<u64>,
        #[serde(default)]
        repeat_ns: u64,
        #[serde(default)]
        anyway: bool,
    },
    PlanUnload {
        member: String,
    },
    /// The plans of the group that has this member begin now.
    PlanTrigger {
        member: String,
    },
    PlanPause {
        member: String,
    },
    PlanResume {
        member: String,
    },
    /// They go on so long after their beginning.
    PlanSeek {
        member: String,
        at_ns: u64,
    },
    /// Rows of the tree from the one after number `after` on.
    Show {
        after: Option<usize>,
    },
}

impl GroupCommand {
    /// Whether it only looks.
    pub fn is_a_question(&self) -> bool {
        matches!(
            self,
            GroupCommand::Show { .. }
                | GroupCommand::Apply {
                    only_look: true,
                    ..
                }
        )
    }
}

/// What has changed, a line each.
#[derive(Debug, Serialize)]
struct Changes {
    changes: Vec<String>,
    /// There are others, for which one answer has no room.
    more: bool,
}

/// Of one change: the order of a thousand members is one, too.
const LINE_BYTES_MAX: usize = 4096;

impl Changes {
    fn of(lines: Vec<String>) -> Self {
        let cut = |line: String| cut_text(&line, LINE_BYTES_MAX).to_owned();
        let (changes, more) = first_page(lines.into_iter().map(cut));
        Changes { changes, more }
    }
}

/// Does what is asked and returns the answer in JSON. `shown_uid`: whose groups are shown; `None`: everybody's.
///
/// # Errors
/// What [`Service::apply_file`] and the others refuse.
pub fn answer(
    service: &mut Service,
    peer: &Peer,
    shown_uid: Option<u32>,
    command: GroupCommand,
) -> Result<serde_json::Result<Vec<u8>>, Refusal> {
    Ok(match command {
        GroupCommand::Apply {
            name,
            text,
            only_look,
        } => {
            let lines = service.apply_file(peer, &name, &text, only_look)?;
            serde_json::to_vec(&Changes::of(lines))
        }
        GroupCommand::Delete { name, uid } => {
            let lines = service.delete_file(peer, &name, uid)?;
            serde_json::to_vec(&Changes::of(lines))
        }
        GroupCommand::Name { name } => {
            service.name_process(peer, &name)?;
            serde_json::to_vec(&serde_json::json!({ "name": name }))
        }
        GroupCommand::PlanLoad {
            member,
            delays_ns,
            lengths_ns,
            repeat_ns,
            anyway,
        } => {
            let intervals = intervals(&delays_ns, &lengths_ns)?;
            let plan = Plan {
                intervals,
                repeat_ns,
            };
            service.set_plan(peer, &member, Some(plan), anyway)?;
            done()
        }
        GroupCommand::PlanUnload { member } => {
            service.set_plan(peer, &member, None, true)?;
            done()
        }
        GroupCommand::PlanTrigger { member } => moved(service, peer, &member, Move::Trigger)?,
        GroupCommand::PlanPause { member } => moved(service, peer, &member, Move::Pause)?,
        GroupCommand::PlanResume { member } => moved(service, peer, &member, Move::Resume)?,
        GroupCommand::PlanSeek { member, at_ns } => {
            moved(service, peer, &member, Move::Seek(at_ns))?
        }
        GroupCommand::Show { after } => {
            serde_json::to_vec(&GroupPage::of(service, shown_uid, after))
        }
    })
}

fn done() -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&serde_json::json!({}))
}

fn moved(
    service: &mut Service,
    peer: &Peer,
    member: &str,
    to: Move,
) -> Result<serde_json::Result<Vec<u8>>, Refusal> {
    service.move_plans(peer, member, to)?;
    Ok(done())
}

fn intervals(delays_ns: &[u64], lengths_ns: &[u64]) -> Result<Vec<Interval>, Refusal> {
    if lengths_ns.len() != 1 && lengths_ns.len() != delays_ns.len() {
        let text = format!(
            "{} delays and {} lengths: expected as many, or one length for all",
            delays_ns.len(),
            lengths_ns.len()
        );
        return Err(Refusal::new(Errno::EINVAL, text));
    }
    let lengths = lengths_ns.iter().cycle();
    let mut start_ns = 0u64;
    let intervals = delays_ns.iter().zip(lengths).map(|(delay_ns, length_ns)| {
        start_ns = start_ns.saturating_add(*delay_ns);
        Interval {
            start_ns,
            end_ns: start_ns.saturating_add(*length_ns),
        }
    });
    Ok(intervals.collect())
}
