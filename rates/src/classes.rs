// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes: how the machine is divided (004 section 3), from a file or at run time.
//!
//! ```toml
//! [class.guaranteed]
//! capacity = "50%"          # of the machine; or a number of CPUs, such as 1.5
//! overbooking = 0           # admits nominal rates up to capacity * (1 + overbooking)
//!
//! [class.batch]
//! capacity = 0.25
//! overbooking = "unlimited"
//! order = "frc"             # "period", the default; "frc" and "rc", the algorithms of 004, for study: see Order
//!
//! [limits]                  # of each user but root
//! rate = 0.5                # sum of the rates reserved
//! reservations = 64
//!
//! [limits.group.video]      # of those who are in this Unix group, by name or number; the most generous holds
//! rate = 1.5
//! ```
//!
//! What the classes leave is the class `flexible`, where everything starts; it is never empty.

use std::fmt;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    rate::{Rate, MILLION},
    ClassTable, Refusal, CLASSES_MAX, RATE_ONE,
};

/// The class of everybody who has reserved nothing.
pub const FLEXIBLE: &str = "flexible";
/// What `flexible` keeps of the machine, in percent: else nobody could repair anything.
const FLEXIBLE_MIN_PERCENT: u64 = 1;
const NAME_BYTES_MAX: usize = 32;

/// How much more than its capacity a class promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overbooking {
    /// Millionths of the capacity; 0 is a hard guarantee.
    Part(u64),
    Unlimited,
}

/// Whose turn it is among the reservations of a class: the scheduler's `enum consort_class_order`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Order {
    /// Whose period ends first, of those that are not ahead of their rates.
    #[default]
    Period = 0,
    /// The smallest virtual time, as in 004's FRC: all wait for one quantum of each other, whatever their periods.
    Frc = 1,
    /// Whose period ends first, by the clock, as in 004's RC: a task that has run alone beyond its rate waits for it later.
    Rc = 2,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    pub name: String,
    /// Millionths of one CPU.
    pub capacity: u64,
    pub overbooking: Overbooking,
    #[serde(default)]
    pub order: Order,
}

impl Class {
    pub fn capacity(&self) -> Rate {
        Rate(self.capacity)
    }

    /// The most that nominal rates may sum up to; `None`: any sum.
    pub fn admits(&self) -> Option<Rate> {
        match self.overbooking {
            Overbooking::Unlimited => None,
            Overbooking::Part(part) => {
                let more = u128::from(self.capacity) * u128::from(part) / u128::from(MILLION);
                Some(Rate(self.capacity) + Rate(u64::try_from(more).unwrap_or(u64::MAX)))
            }
        }
    }
}

impl fmt::Display for Overbooking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Overbooking::Unlimited => f.write_str("unlimited"),
            Overbooking::Part(part) => write!(f, "{}", Rate(*part)),
        }
    }
}

/// All classes but `flexible`, by their numbers in the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classes {
    /// CPUs that they divide.
    pub cpus: u32,
    by_number: Vec<Option<Class>>,
}

impl Classes {
    /// Half of the machine guaranteed, a quarter for adaptive programs with 70 % of overbooking, the rest flexible.
    pub fn by_default(cpus: u32) -> Classes {
        let part = |percent: u64| u64::from(cpus) * MILLION * percent / 100;
        let class = |name: &str, percent, overbooking| {
            Some(Class {
                name: name.to_owned(),
                capacity: part(percent),
                overbooking: Overbooking::Part(overbooking),
                order: Order::default(),
            })
        };
        Classes {
            cpus,
            by_number: vec![
                class("guaranteed", 50, 0),
                class("adaptive", 25, 7 * MILLION / 10),
            ],
        }
    }

    /// No classes: everything is flexible.
    pub fn none(cpus: u32) -> Classes {
        Classes {
            cpus,
            by_number: Vec::new(),
        }
    }

    /// # Errors
    /// ENOENT, naming those that there are.
    pub fn find(&self, name: &str) -> Result<usize, Refusal> {
        if let Some(number) = self.number_of(name) {
            return Ok(number);
        }
        let known: Vec<&str> = self.iter().map(|(_, class)| class.name.as_str()).collect();
        let text = match name {
            FLEXIBLE => format!(
                "everybody is in the class {FLEXIBLE} without a reservation: reserve in one of: {}",
                known.join(", ")
            ),
            _ => format!(
                "there is no class {name:?}: expected one of: {}",
                known.join(", ")
            ),
        };
        Err(Refusal::new(Errno::ENOENT, text))
    }

    fn number_of(&self, name: &str) -> Option<usize> {
        self.iter()
            .find(|(_, class)| class.name == name)
            .map(|(number, _)| number)
    }

    pub fn get(&self, number: usize) -> Option<&Class> {
        self.by_number.get(number)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Class)> {
        let all = self.by_number.iter().enumerate();
        all.filter_map(|(number, class)| Some((number, class.as_ref()?)))
    }

    /// What the classes leave.
    pub fn flexible(&self) -> Rate {
        self.machine() - self.iter().map(|(_, class)| class.capacity()).sum()
    }

    fn machine(&self) -> Rate {
        Rate(u64::from(self.cpus) * MILLION)
    }

    /// The same with one class changed or added.
    ///
    /// # Errors
    /// EINVAL for a bad name, ENOSPC with the numbers when the machine has not that much, or room for no more classes.
    pub fn with(&self, class: Class) -> Result<Classes, Refusal> {
        check_name(&class.name)?;
        let mut changed = self.clone();
        let free = changed.by_number.iter().position(Option::is_none);
        let number = self
            .number_of(&class.name)
            .or(free)
            .unwrap_or(changed.by_number.len());
        if number >= CLASSES_MAX {
            let text = format!("there are {CLASSES_MAX} classes, the most that there may be");
            return Err(Refusal::new(Errno::ENOSPC, text));
        }
        if number == changed.by_number.len() {
            changed.by_number.push(None);
        }
        let wanted = (class.name.clone(), class.capacity());
        changed.by_number[number] = Some(class);
        changed.check_sum(self, wanted)?;
        Ok(changed)
    }

    fn check_sum(&self, before: &Classes, (name, wanted): (String, Rate)) -> Result<(), Refusal> {
        let kept = Rate(self.machine().0 * FLEXIBLE_MIN_PERCENT / 100);
        let sum: Rate = self.iter().map(|(_, class)| class.capacity()).sum();
        if wanted > Rate(0) && sum + kept <= self.machine() {
            return Ok(());
        }
        let others: Rate = before
            .iter()
            .filter(|(_, class)| class.name != name)
            .map(|(_, class)| class.capacity())
            .sum();
        let text = format!(
            "class {name} cannot have {wanted} CPUs: the machine has {}, the other classes have {others}, and {kept} \
             stay with {FLEXIBLE}: expected more than 0 and at most {}",
            self.cpus,
            self.machine() - others - kept
        );
        Err(Refusal::new(Errno::ENOSPC, text))
    }

    /// The same without the class of that number.
    pub fn without(&self, number: usize) -> Classes {
        let mut changed = self.clone();
        if let Some(class) = changed.by_number.get_mut(number) {
            *class = None;
        }
        changed
    }

    /// The same classes, where each has the number of its namesake in `before`, and the others have what is free: reservations
    /// know their class by its number.
    pub fn numbered_as(&self, before: &Classes) -> Classes {
        let mut numbered = Classes::none(self.cpus);
        let (known, new): (Vec<&Class>, Vec<&Class>) = self
            .iter()
            .map(|(_, class)| class)
            .partition(|class| before.number_of(&class.name).is_some());
        for class in known {
            if let Some(number) = before.number_of(&class.name) {
                numbered.put(number, class);
            }
        }
        for class in new {
            let free = (0..).find(|number| numbered.get(*number).is_none());
            numbered.put(free.unwrap_or_default(), class);
        }
        numbered
    }

    fn put(&mut self, number: usize, class: &Class) {
        if number >= self.by_number.len() {
            self.by_number.resize(number + 1, None);
        }
        self.by_number[number] = Some(class.clone());
    }

    /// As the scheduler divides every run queue.
    pub fn table(&self) -> ClassTable {
        let mut table = ClassTable {
            capacity: [0; CLASSES_MAX],
            flexible: RATE_ONE,
            order: [Order::default(); CLASSES_MAX],
        };
        for (number, class) in self.iter() {
            let part = Rate(MILLION).share(class.capacity(), self.machine());
            table.capacity[number] = part.weight();
            table.order[number] = class.order;
            table.flexible = table.flexible.saturating_sub(part.weight()).max(1);
        }
        table
    }
}

/// Names go to logs, terminals and requests.
fn check_name(name: &str) -> Result<(), Refusal> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if fits && name.chars().all(is_good) && name != FLEXIBLE {
        return Ok(());
    }
    let text = match name == FLEXIBLE {
        true => format!("the class {FLEXIBLE:?} is what the others leave: expected a change of these instead"),
        false => format!(
            "{name:?} cannot be the name of a class: expected 1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, '-', '_' and '.'"
        ),
    };
    Err(Refusal::new(Errno::EINVAL, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(name: &str, capacity: u64) -> Class {
        Class {
            name: name.to_owned(),
            capacity,
            overbooking: Overbooking::Part(0),
            order: Order::default(),
        }
    }

    #[test]
    fn the_machine_cannot_be_given_away() {
        let classes = Classes::none(2).with(class("a", 1_500_000)).unwrap();
        let refusal = classes.with(class("b", 500_000)).unwrap_err();
        assert_eq!(refusal.errno, Errno::ENOSPC);
        assert!(refusal.text.contains("at most 0.48"), "{}", refusal.text);
        assert!(classes.with(class("b", 480_000)).is_ok());
        assert!(classes.with(class("b", 0)).is_err());
        // The class that is changed does not count twice.
        assert!(classes.with(class("a", 1_980_000)).is_ok());
    }

    #[test]
    fn names_and_numbers() {
        let classes = Classes::by_default(1);
        assert_eq!(classes.find("guaranteed"), Ok(0));
        assert_eq!(classes.find("adaptive"), Ok(1));
        let refusal = classes.find("golden").unwrap_err();
        assert!(
            refusal.text.contains("guaranteed, adaptive"),
            "{}",
            refusal.text
        );
        assert_eq!(classes.find(FLEXIBLE).unwrap_err().errno, Errno::ENOENT);
        let fewer = classes.without(0);
        assert_eq!(fewer.find("adaptive"), Ok(1));
        assert_eq!(fewer.with(class("c", 1)).unwrap().find("c"), Ok(0));
        for name in ["", "flexible", "a b", "ä", &"x".repeat(33)] {
            let refusal = classes.with(class(name, 1)).unwrap_err();
            assert_eq!(refusal.errno, Errno::EINVAL, "{name:?}");
        }
    }

    #[test]
    fn classes_keep_their_numbers() {
        let before = Classes::by_default(1);
        let file = |names: &[&str]| {
            let classes = names.iter().map(|name| class(name, 100_000));
            classes.fold(Classes::none(1), |all, one| all.with(one).unwrap())
        };
        let numbered = file(&["a", "adaptive", "b", "guaranteed"]).numbered_as(&before);
        let names: Vec<&str> = numbered.iter().map(|(_, one)| one.name.as_str()).collect();
        assert_eq!(names, ["guaranteed", "adaptive", "a", "b"]);
        let numbered = file(&["a", "adaptive"]).numbered_as(&before);
        assert_eq!(
            (numbered.find("adaptive"), numbered.find("a")),
            (Ok(1), Ok(0))
        );
        assert_eq!(
            file(&["guaranteed"]).numbered_as(&before),
            file(&["guaranteed"])
        );
        assert_eq!(before.numbered_as(&before), before);
    }

    #[test]
    fn overbooking() {
        let admits = |overbooking| {
            let capacity = 250_000;
            Class {
                name: String::new(),
                capacity,
                overbooking,
                order: Order::default(),
            }
            .admits()
        };
        assert_eq!(admits(Overbooking::Part(0)), Some(Rate(250_000)));
        assert_eq!(admits(Overbooking::Part(700_000)), Some(Rate(425_000)));
        assert_eq!(admits(Overbooking::Unlimited), None);
    }

    proptest! {
        /// Capacities that are granted fill the machine and no more, and the table of the scheduler says the same.
        #[test]
        fn the_table_is_the_machine(cpus in 1u32..64, asked in prop::collection::vec(1u64..20_000_000, 0..20)) {
            let mut classes = Classes::none(cpus);
            for (i, capacity) in asked.iter().enumerate() {
                if let Ok(changed) = classes.with(class(&i.to_string(), *capacity)) {
                    classes = changed;
                }
            }
            prop_assert!(classes.flexible() >= Rate(u64::from(cpus) * MILLION / 100));
            let table = classes.table();
            let sum = table.capacity.iter().map(|c| u64::from(*c)).sum::<u64>() + u64::from(table.flexible);
            prop_assert_eq!(sum, u64::from(RATE_ONE));
            for (number, class) in classes.iter() {
                let part = class.capacity as f64 / f64::from(cpus) / MILLION as f64;
                let given = f64::from(table.capacity[number]) / f64::from(RATE_ONE);
                prop_assert!((part - given).abs() < 3e-6, "{} {}", part, given);
            }
        }
    }
}
