// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of the operator's file that says what users may have.

use std::{collections::BTreeMap, fs, time::Duration};

use consort_rates::accounts::number_in;
use serde::Deserialize;

use super::{Amount, Division};
use crate::{admission::UserLimits, limits::Limits, root::RootsPart};

/// The most of anything that a user may be allowed: a domain with so many members is still told in one answer.
const HELD_MAX: usize = 8000;

/// Names of Unix groups. Not the C library's way, which a static program has not.
const GROUPS: &str = "/etc/group";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    rate: Option<Amount>,
    reservations: Option<usize>,
    kept_for_root: Option<Amount>,
    programs: Option<usize>,
    members: Option<usize>,
    domains: Option<usize>,
    requests_per_s: Option<u32>,
    cpu_percent: Option<f64>,
    group: Option<BTreeMap<String, GroupEntry>>,
}

impl Entry {
    pub(super) fn apply(self, division: &mut Division, cpus: u32) -> Result<(), String> {
        division.holdings = Some(self.holdings()?);
        if let Some(part) = &self.kept_for_root {
            let expected =
                || format!("limits.kept_for_root is {part}: expected a part, 0 to 1 or \"100%\"");
            division.roots_part = part.part().and_then(RootsPart::of).ok_or_else(expected)?;
        }
        let of_users = GroupEntry {
            rate: self.rate,
            reservations: self.reservations,
        };
        division.limits = of_users.limits("limits", division.limits, cpus)?;
        let groups = fs::read_to_string(GROUPS).unwrap_or_default();
        for (name, entry) in self.group.unwrap_or_default() {
            let label = format!("limits.group.{name}");
            let unknown = || format!("{label}: there is no such group in {GROUPS}");
            let number = number_in(&groups, &name).ok_or_else(unknown)?;
            let limits = entry.limits(&label, division.limits, cpus)?;
            division.group_limits.insert(number, limits);
        }
        Ok(())
    }

    fn holdings(&self) -> Result<Limits, String> {
        let least = Limits::default();
        let cpu_percent = self.cpu_percent.unwrap_or(1.0);
        if !(0.1..=100.0).contains(&cpu_percent) {
            return Err(format!(
                "limits.cpu_percent is {cpu_percent}: expected 0.1 to 100"
            ));
        }
        let count = |name: &str, count: Option<usize>, otherwise: usize| match count {
            Some(count) if !(1..=HELD_MAX).contains(&count) => Err(format!(
                "limits.{name} is {count}: expected 1 to {HELD_MAX}"
            )),
            count => Ok(count.unwrap_or(otherwise)),
        };
        let rate = self.requests_per_s.map(|rate| rate as usize);
        let rate = count("requests_per_s", rate, least.requests_per_s as usize)?;
        Ok(Limits {
            clients: count("programs", self.programs, least.clients)?,
            members: count("members", self.members, least.members)?,
            domains: count("domains", self.domains, least.domains)?,
            requests_per_s: rate as u32,
            cpu_per_s: Duration::from_secs_f64(cpu_percent / 100.0),
            ..least
        })
    }
}

/// What a group's members may have; what is not said, they have as everybody.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupEntry {
    rate: Option<Amount>,
    reservations: Option<usize>,
}

impl GroupEntry {
    fn limits(&self, name: &str, of_users: UserLimits, cpus: u32) -> Result<UserLimits, String> {
        let mut limits = of_users;
        if let Some(rate) = &self.rate {
            let expected = || {
                format!(
                    "{name}.rate is {rate}: expected a number of CPUs, 0 or more, or a part of the machine, such as 25%"
                )
            };
            limits.rate = rate.cpus(cpus).ok_or_else(expected)?;
        }
        if let Some(number) = self.reservations {
            limits.reservations = number;
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_numbers() {
        let groups = "root:x:0:\nvideo:x:44:ann,bob\nbroken:x:\n";
        for (name, number) in [
            ("video", Some(44)),
            ("1000", Some(1000)),
            ("vide", None),
            ("broken", None),
            ("", None),
        ] {
            assert_eq!(number_in(groups, name), number, "{name}");
        }
    }
}
