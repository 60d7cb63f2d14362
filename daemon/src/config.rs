// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operator's file: classes, limits and tunables, in TOML. Its form is in consort-classes.toml(5).

mod limits;

use std::{collections::BTreeMap, fs, io, path::Path, path::PathBuf};

use consort_kernel::{Tunables, TunablesChange, GRANULARITY_NS, MIN_SLICE_NS};
use consort_rates::accounts::Accounts;
use serde::{de::Visitor, Deserialize, Deserializer};

use crate::{
    admission::UserLimits,
    classes::{Class, Classes, Order, Overbooking},
    duration::parse_ns,
    limits::Limits,
    rate::{Rate, MILLION},
    root::RootsPart,
    Refusal,
};

/// Where the file is, unless `consort serve --classes` names another.
pub const DEFAULT_PATH: &str = "/etc/consort/classes.toml";

/// Users, and whose subordinate numbers are.
const USERS: &str = "/etc/passwd";
const SUBORDINATES: &str = "/etc/subuid";

/// The users of this machine, as [`consort_rates::accounts::number_in`] reads them.
pub(crate) fn users() -> String {
    fs::read_to_string(USERS).unwrap_or_default()
}

/// How the machine is divided when the daemon starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    pub classes: Classes,
    pub limits: UserLimits,
    /// Of those who are in these Unix groups, by number; the most generous one holds.
    pub group_limits: BTreeMap<u32, UserLimits>,
    /// What only root can reserve.
    pub roots_part: RootsPart,
    /// What users can hold, and how much they can ask; `None`: as the daemon was started.
    pub holdings: Option<Limits>,
    /// Whose subordinate user numbers are.
    pub accounts: Accounts,
    /// What the scheduler starts with, unless the command line says otherwise.
    pub tunables: TunablesChange,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}; expected a file of classes, see `man consort-classes.toml`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: {text}", path.display())]
    Content { path: PathBuf, text: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    class: Option<BTreeMap<String, ClassEntry>>,
    limits: Option<limits::Entry>,
    #[serde(default)]
    scheduler: SchedulerEntry,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SchedulerEntry {
    #[serde(default, deserialize_with = "duration")]
    granularity: Option<u64>,
    #[serde(default, deserialize_with = "duration")]
    min_slice: Option<u64>,
}

impl SchedulerEntry {
    fn tunables(&self) -> Result<TunablesChange, String> {
        let change = TunablesChange {
            granularity_ns: self.granularity,
            min_slice_ns: self.min_slice,
        };
        // Beside what is not said, anything in its range may be right.
        let widest = Tunables {
            granularity_ns: GRANULARITY_NS.1,
            min_slice_ns: MIN_SLICE_NS.0,
            window_ns: 0,
        };
        let checked = change.apply(widest);
        checked.map_err(|error| format!("scheduler: {error}"))?;
        Ok(change)
    }
}

/// Nanoseconds, written as `"2ms"`.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_str(DurationText).map(Some)
}

struct DurationText;

impl Visitor<'_> for DurationText {
    type Value = u64;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a duration with its unit, such as \"2ms\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
        parse_ns(text).map_err(E::custom)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassEntry {
    capacity: Amount,
    overbooking: Option<Amount>,
    #[serde(default)]
    order: Order,
}

/// A number, or a number with a meaning of its own: `0.5`, `"50%"`, `"unlimited"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    Number(f64),
    Text(String),
}

impl Division {
    /// Without a file: the default classes.
    pub fn by_default(cpus: u32) -> Division {
        Division {
            classes: Classes::by_default(cpus),
            limits: UserLimits::default(),
            group_limits: BTreeMap::new(),
            roots_part: RootsPart::default(),
            holdings: None,
            accounts: Accounts::default(),
            tunables: TunablesChange::default(),
        }
    }

    /// Reads the file at `path`, or where it is by default; that one may be missing.
    ///
    /// # Errors
    /// What is wrong in the file, with its line.
    pub fn read(path: Option<&Path>, cpus: u32) -> Result<Division, ConfigError> {
        let mut division = Division::read_file(path, cpus)?;
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        division.accounts = Accounts::parse(&read(SUBORDINATES), &read(USERS));
        Ok(division)
    }

    fn read_file(path: Option<&Path>, cpus: u32) -> Result<Division, ConfigError> {
        let (path, may_miss) = match path {
            Some(path) => (path, false),
            None => (Path::new(DEFAULT_PATH), true),
        };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if may_miss && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Division::by_default(cpus))
            }
            Err(source) => {
                let path = path.to_owned();
                return Err(ConfigError::Read { path, source });
            }
        };
        Division::parse(&text, cpus).map_err(|text| ConfigError::Content {
            path: path.to_owned(),
            text,
        })
    }

    pub(crate) fn parse(text: &str, cpus: u32) -> Result<Division, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut division = Division::by_default(cpus);
        if let Some(entries) = file.class {
            division.classes = Classes::none(cpus);
            for (name, entry) in entries {
                let overbooking = entry.overbooking.as_ref();
                let class = class(name, &entry.capacity, overbooking, entry.order, cpus);
                let classes = class.and_then(|class| Ok(division.classes.with(class)?));
                division.classes = classes.map_err(|refusal| refusal.text)?;
            }
        }
        division.tunables = file.scheduler.tunables()?;
        if let Some(limits) = file.limits {
            limits.apply(&mut division, cpus)?;
        }
        Ok(division)
    }
}

/// A class as an operator describes it.
///
/// # Errors
/// ERANGE for a capacity or an overbooking that is none.
pub fn class(
    name: String,
    capacity: &Amount,
    overbooking: Option<&Amount>,
    order: Order,
    cpus: u32,
) -> Result<Class, Refusal> {
    let refuse = |what: &str, amount: &Amount, expected: &str| {
        let text = format!("{what} of class {name} is {amount}: expected {expected}");
        Refusal::new(nix::errno::Errno::ERANGE, text)
    };
    let Some(parsed) = capacity.cpus(cpus) else {
        let expected = "a number of CPUs, such as 1.5, or a part of the machine, such as 50%";
        return Err(refuse("the capacity", capacity, expected));
    };
    let overbooking = match overbooking {
        None => Overbooking::Part(0),
        Some(amount) => amount.overbooking().ok_or_else(|| {
            let expected = "a part of the capacity, such as 0.7 or 70%, or unlimited";
            refuse("the overbooking", amount, expected)
        })?,
    };
    Ok(Class {
        name,
        capacity: parsed.0,
        overbooking,
        order,
    })
}

impl Amount {
    /// As on a command line: a number or a text.
    pub fn parse(text: &str) -> Amount {
        text.parse()
            .map_or_else(|_| Amount::Text(text.to_owned()), Amount::Number)
    }

    fn percent(text: &str) -> Option<f64> {
        let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
        Some(percent / 100.0)
    }

    /// CPUs, or a part of the machine.
    fn cpus(&self, cpus: u32) -> Option<Rate> {
        match self {
            Amount::Number(cpus) => Rate::of(*cpus),
            Amount::Text(text) => Rate::of(Amount::percent(text)? * f64::from(cpus)),
        }
    }

    /// A part of something.
    fn part(&self) -> Option<f64> {
        match self {
            Amount::Number(part) => Some(*part),
            Amount::Text(text) => Amount::percent(text),
        }
    }

    fn overbooking(&self) -> Option<Overbooking> {
        if *self == Amount::Text("unlimited".to_owned()) {
            return Some(Overbooking::Unlimited);
        }
        // A thousandfold promise is none.
        Rate::of(self.part()?)
            .filter(|part| part.0 <= 1000 * MILLION)
            .map(|part| Overbooking::Part(part.0))
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Amount::Number(number) => write!(f, "{number}"),
            Amount::Text(text) => write!(f, "{text:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_divides_the_machine() {
        let text = "
            [class.guaranteed]
            capacity = '30%'
            [class.OB70]
            capacity = 2.4
            overbooking = '70%'
            [class.batch]
            capacity = 0.25
            overbooking = 'unlimited'
            order = 'frc'
            [limits]
            rate = 1.5
            members = 30
            cpu_percent = 2.5
            kept_for_root = '10%'
            [limits.group.42]
            reservations = 3
            [limits.group.43]
            rate = '50%'
            [scheduler]
            granularity = '2ms'
            min-slice = '200us'
        ";
        let division = Division::parse(text, 4).unwrap();
        let classes = &division.classes;
        let class = |name| classes.get(classes.find(name).unwrap()).unwrap();
        let admits = |name| class(name).admits();
        assert_eq!(admits("guaranteed"), Some(Rate(1_200_000)));
        assert_eq!(admits("OB70"), Some(Rate(4_080_000)));
        assert_eq!(admits("batch"), None);
        assert_eq!(class("OB70").order, Order::Period);
        assert_eq!(class("batch").order, Order::Frc);
        assert_eq!(classes.flexible(), Rate(150_000));
        assert_eq!(division.limits.rate, Rate(1_500_000));
        assert_eq!(
            division.limits.reservations,
            UserLimits::default().reservations
        );
        let holdings = Limits {
            members: 30,
            cpu_per_s: Duration::from_millis(25),
            ..Limits::default()
        };
        assert_eq!(division.holdings, Some(holdings));
        let tunables = division.tunables;
        assert_eq!(tunables.granularity_ns, Some(2_000_000));
        assert_eq!(tunables.min_slice_ns, Some(200_000));
        assert!(classes.find("adaptive").is_err());
        let of_group = UserLimits {
            rate: Rate(1_500_000),
            reservations: 3,
        };
        let of_half = UserLimits {
            rate: Rate(2_000_000),
            ..division.limits
        };
        let groups = BTreeMap::from([(42, of_group), (43, of_half)]);
        assert_eq!(division.group_limits, groups);
        assert_eq!(Some(division.roots_part), RootsPart::of(0.1));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("[class.a]\ncapacity = 'half'", "expected a number of CPUs"),
            ("[class.a]\ncapacity = nan", "expected a number of CPUs"),
            ("[class.a]\ncapacity = -1", "expected a number of CPUs"),
            ("[class.a]\ncapacity = 2", "the machine has 1"),
            (
                "[class.a]\ncapacity = 0.5\n[class.b]\ncapacity = 0.5",
                "at most 0.49",
            ),
            (
                "[class.a]\ncapacity = 0.1\noverbooking = -1",
                "expected a part",
            ),
            (
                "[class.a]\ncapacity = 0.1\noverbooking = 'much'",
                "expected a part",
            ),
            ("[class.flexible]\ncapacity = 0.1", "what the others leave"),
            ("[class.a]\ncapacity = 0.1\ncolour = 1", "line 3"),
            ("[class.a]\n", "capacity"),
            ("[limits]\nrate = -1", "limits.rate"),
            ("[limits]\nmembers = 0", "expected 1 to"),
            ("[limits]\ncpu_percent = nan", "expected 0.1 to 100"),
            ("[limits]\nrate = '25'", "such as 25%"),
            ("[limits]\nrate = '-25%'", "such as 25%"),
            ("[limits]\nkept_for_root = '101%'", "0 to 1"),
            ("[limits]\nkept_for_root = -0.1", "0 to 1"),
            ("[limits]\nkept_for_root = 'unlimited'", "0 to 1"),
            ("[limits.group.7]\nrate = nan", "limits.group.7.rate"),
            ("[limits.group.no-such]\nrate = 1", "no such group"),
            ("klasse = 1", "line 1"),
            ("[scheduler]\ngranularity = 2", "line 2"),
            ("[scheduler]\nmin-slice = 2", "such as \"2ms\""),
            ("[scheduler]\ngranularity = '2'", "no unit"),
            ("[scheduler]\ngranularity = '2s'", "100us to 1s"),
            (
                "[scheduler]\ngranularity = '1ms'\nmin-slice = '2ms'",
                "10us to 1ms",
            ),
        ] {
            let error = Division::parse(text, 1).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn only_the_default_file_may_miss() {
        let missing = Path::new("/nonexistent/classes.toml");
        let error = Division::read(Some(missing), 1).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
    }
}
