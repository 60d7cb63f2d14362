// SPDX-License-Identifier: MIT OR Apache-2.0
//! CONTROL requests about groups.

use serde::{Deserialize, Serialize};

use super::show::GroupPage;
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
    Delete { name: String, uid: Option<u32> },
    /// The asking process, and what it will become, is called so.
    Name { name: String },
    /// Rows of the tree from the one after number `after` on.
    Show { after: Option<usize> },
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

impl Changes {
    fn of(lines: Vec<String>) -> Self {
        let (changes, more) = first_page(lines.into_iter());
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
        GroupCommand::Show { after } => {
            serde_json::to_vec(&GroupPage::of(service, shown_uid, after))
        }
    })
}
