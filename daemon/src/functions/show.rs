// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `consort df list` shows: functions, the groups that have them, and how they do there.

use consort_kernel::UserStatus;
use serde::Serialize;

use super::Key;
use crate::{pages::first_page, service::Service};

/// A function, as `consort df list` shows it.
#[derive(Debug, Serialize)]
pub struct FunctionRow {
    pub row: usize,
    pub name: String,
    pub uid: u32,
    /// `df_key` or `df_pick`.
    pub kind: &'static str,
    pub instructions: usize,
    pub bytes: usize,
    /// That one answer takes at most; `null`: it is not verified.
    pub steps: Option<u32>,
    pub refused: Option<String>,
    pub groups: Vec<UserRow>,
}

/// What a function does for a group.
#[derive(Debug, Serialize)]
pub struct UserRow {
    pub file: String,
    pub group: String,
    #[serde(flatten)]
    pub status: UserStatus,
}

#[derive(Debug, Serialize)]
pub struct FunctionPage {
    pub functions: Vec<FunctionRow>,
    /// Ask again with `after` set to the last one's `row`.
    pub more: bool,
}

impl Service {
    /// The functions after row `after` that user `shown_uid` has, or everybody.
    pub(super) fn functions_page(
        &self,
        shown_uid: Option<u32>,
        after: Option<usize>,
    ) -> FunctionPage {
        let first = after.map_or(0, |after| after.saturating_add(1));
        let loaded = self.functions.loaded.iter();
        let shown = loaded.filter(|((uid, _), _)| shown_uid.is_none_or(|shown| shown == *uid));
        let rows = shown.enumerate().skip(first);
        let (functions, more) = first_page(rows.map(|(row, (key, loaded))| FunctionRow {
            row,
            name: key.1.clone(),
            uid: key.0,
            kind: loaded.kind.symbol(),
            instructions: loaded.instructions,
            bytes: loaded.bytes,
            steps: loaded.steps,
            refused: loaded.refused.clone(),
            groups: self.rows_with(key),
        }));
        FunctionPage { functions, more }
    }

    fn rows_with(&self, key: &Key) -> Vec<UserRow> {
        let groups = self.groups_with(key).into_iter();
        let rows = groups.filter_map(|(file, group, id)| {
            Some(UserRow {
                file: file.name,
                group,
                status: self.host.user_status(id).ok()?,
            })
        });
        rows.collect()
    }
}
