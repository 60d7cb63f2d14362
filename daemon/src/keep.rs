// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds now, kept for another scheduler of this daemon's, or written as the operator's file: a daemon that reads it
//! starts with the same.

use std::fmt::Write as _;

use consort_kernel::{format_ns, Tunables, TunablesChange};
use tracing::warn;

use crate::{
    admission::UserLimits,
    classes::{Classes, Order, Overbooking},
    config::Division,
    ejection::Mode,
    limits::Limits,
    rate::Rate,
    service::Service,
};

impl Service {
    /// The division, the limits and the tunables that hold now, as the operator's file has them.
    pub(crate) fn as_file(&self) -> String {
        let reservations = &self.reservations;
        let division = Division {
            classes: reservations.ledger.classes().clone(),
            limits: reservations.ledger.limits(),
            group_limits: reservations.group_limits.clone(),
            roots_part: reservations.roots_part,
            holdings: Some(*self.users.limits()),
            ..Division::by_default(self.host.cpus())
        };
        text(&division, self.host.tunables())
    }

    /// What can be set of a scheduler, as it is now; `None` for one that has nothing to set.
    pub(crate) fn tunables_set(&self) -> Option<TunablesChange> {
        let held = self.host.tunables();
        (self.host.mode() == Mode::Full).then_some(TunablesChange {
            granularity_ns: Some(held.granularity_ns),
            min_slice_ns: Some(held.min_slice_ns),
        })
    }

    /// What was set of the scheduler before holds for this one.
    pub(crate) fn set_again(&mut self, set: Option<TunablesChange>) {
        let Some(set) = set else {
            return;
        };
        let tunables = set.apply(self.host.tunables());
        if let Err(error) = tunables.and_then(|tunables| self.host.set_tunables(tunables)) {
            warn!(%error, "granularity and min-slice are as the daemon was started");
        }
    }
}

fn text(division: &Division, tunables: Tunables) -> String {
    let mut out = String::from(
        "# Written by `consort keep`; see consort-classes.toml(5).\n# Checked by: consort serve --check FILE\n",
    );
    write_classes(&mut out, &division.classes);
    write_limits(&mut out, "limits", division.limits);
    let _ = writeln!(out, "kept_for_root = {}", division.roots_part);
    if let Some(holdings) = &division.holdings {
        write_holdings(&mut out, holdings);
    }
    for (group, limits) in &division.group_limits {
        write_limits(&mut out, &format!("limits.group.{group}"), *limits);
    }
    // Writing into a String cannot fail.
    let _ = write!(
        out,
        "\n[scheduler]\ngranularity = \"{}\"\nmin-slice = \"{}\"\n",
        format_ns(tunables.granularity_ns),
        format_ns(tunables.min_slice_ns)
    );
    out
}

fn write_classes(out: &mut String, classes: &Classes) {
    if classes.iter().next().is_none() {
        // Without it, the file would mean the default classes.
        out.push_str("\n[class]\n");
    }
    for (_, class) in classes.iter() {
        let overbooking = match class.overbooking {
            Overbooking::Part(part) => Rate(part).to_string(),
            Overbooking::Unlimited => "\"unlimited\"".to_owned(),
        };
        let order = match class.order {
            Order::Period => "period",
            Order::Frc => "frc",
            Order::Rc => "rc",
        };
        // Names may have dots, which mean something else without quotes.
        let _ = write!(
            out,
            "\n[class.\"{}\"]\ncapacity = {} # CPUs, of {}\noverbooking = {overbooking}\norder = \"{order}\"\n",
            class.name,
            class.capacity(),
            classes.cpus
        );
    }
}

fn write_limits(out: &mut String, name: &str, limits: UserLimits) {
    let (rate, number) = (limits.rate, limits.reservations);
    let _ = write!(out, "\n[{name}]\nrate = {rate}\nreservations = {number}\n");
}

/// What users can hold: the rest of `[limits]`.
fn write_holdings(out: &mut String, holdings: &Limits) {
    let _ = write!(
        out,
        "programs = {}\nmembers = {}\ndomains = {}\nrequests_per_s = {}\ncpu_percent = {:?}\n",
        holdings.clients,
        holdings.members,
        holdings.domains,
        holdings.requests_per_s,
        holdings.cpu_per_s.as_secs_f64() * 100.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::RootsPart;

    #[test]
    fn what_is_written_is_read_back() {
        let limits = UserLimits {
            rate: Rate(1_500_000),
            reservations: 3,
        };
        let mut division = Division::by_default(3);
        division.limits = limits;
        division.holdings = Some(Limits {
            members: 30,
            cpu_per_s: std::time::Duration::from_millis(25),
            ..Limits::default()
        });
        division.group_limits.insert(44, UserLimits::default());
        division.roots_part = RootsPart::of(0.125).unwrap();
        let batch = crate::classes::Class {
            name: "batch.d".to_owned(),
            capacity: 123_457,
            overbooking: Overbooking::Unlimited,
            order: Order::Rc,
        };
        division.classes = division.classes.with(batch).unwrap();
        for classes in [division.classes.clone(), Classes::none(3)] {
            division.classes = classes;
            let tunables = Tunables {
                granularity_ns: 2_500_000,
                min_slice_ns: 123_456,
                window_ns: 0,
            };
            let text = text(&division, tunables);
            let mut read = Division::parse(&text, 3).unwrap();
            assert_eq!(read.tunables.granularity_ns, Some(2_500_000), "{text}");
            assert_eq!(read.tunables.min_slice_ns, Some(123_456), "{text}");
            read.tunables = division.tunables;
            let sorted = |division: &Division| {
                let classes = division.classes.iter().map(|(_, class)| class.clone());
                let mut classes: Vec<_> = classes.collect();
                classes.sort_by(|a, b| a.name.cmp(&b.name));
                classes
            };
            assert_eq!(sorted(&read), sorted(&division), "{text}");
            assert_eq!(read.limits, division.limits, "{text}");
            assert_eq!(read.roots_part, division.roots_part, "{text}");
            assert_eq!(read.holdings, division.holdings, "{text}");
            assert_eq!(read.group_limits, division.group_limits, "{text}");
        }
    }
}
