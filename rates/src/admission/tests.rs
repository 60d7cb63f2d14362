// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is admitted, and what is not.

use super::*;
use crate::classes::{Order, Overbooking};
use proptest::prelude::*;

type Target = i32;

fn reservation(uid: u32, class: usize, rate: u64, pid: i32) -> Reservation<Target> {
    Reservation {
        uid,
        class,
        rate: Rate(rate),
        auto: None,
        period_ns: PERIOD_MIN_NS,
        target: pid,
    }
}

fn ledger() -> Ledger<Target> {
    Ledger::new(Classes::by_default(1), UserLimits::default())
}

#[test]
fn a_full_class_an_empty_one_and_the_last_to_leave() {
    let mut ledger = ledger();
    assert_eq!(ledger.effective(0, Rate(300_000)), Rate(500_000));
    ledger.insert(1, reservation(0, 0, 300_000, 10));
    ledger.insert(2, reservation(0, 0, 200_000, 11));
    assert_eq!(ledger.effective(0, Rate(300_000)), Rate(300_000));
    let refusal = ledger.admit(0, 0, Rate(1), None).unwrap_err();
    assert_eq!(refusal.errno, Errno::ENOSPC);
    for part in ["admits rates of 0.5", "has admitted 0.5", "0 are left"] {
        assert!(refusal.text.contains(part), "{}", refusal.text);
    }
    assert!(ledger.admit(0, 0, Rate(300_000), Some(1)).is_ok());
    assert!(ledger.admit(0, 0, Rate(300_001), Some(1)).is_err());
    assert!(ledger.admit(0, 1, Rate(425_000), None).is_ok());
    assert!(ledger.admit(0, 1, Rate(425_001), None).is_err());
    // Another class' reservation frees nothing in this one.
    assert!(ledger.admit(0, 1, Rate(425_001), Some(1)).is_err());
    ledger.remove(1);
    ledger.remove(2);
    assert_eq!((ledger.asked(0), ledger.len()), (Rate(0), 0));
    assert_eq!(ledger.find(&10), None);
    assert!(ledger.admit(0, 0, Rate(500_000), None).is_ok());
}

#[test]
fn users_have_limits_and_root_has_not() {
    let limits = UserLimits {
        rate: Rate(300_000),
        reservations: 2,
    };
    let mut ledger = Ledger::new(Classes::by_default(4), limits);
    ledger.insert(1, reservation(1000, 0, 200_000, 10));
    let refusal = ledger.admit(1000, 1, Rate(100_001), None).unwrap_err();
    assert_eq!(refusal.errno, Errno::EDQUOT);
    assert!(
        refusal.text.contains("at most 0.1 more"),
        "{}",
        refusal.text
    );
    assert!(ledger.admit(1001, 1, Rate(300_000), None).is_ok());
    assert!(ledger.admit(0, 1, Rate(900_000), None).is_ok());
    assert!(ledger.admit(1000, 1, Rate(300_000), Some(1)).is_ok());
    ledger.insert(2, reservation(1000, 0, 100, 11));
    let refusal = ledger.admit(1000, 1, Rate(100), None).unwrap_err();
    assert!(refusal.text.contains("2 reservations"), "{}", refusal.text);
}

#[test]
fn a_class_keeps_what_it_promised() {
    let mut ledger = ledger();
    ledger.insert(1, reservation(0, 0, 300_000, 10));
    let with = |capacity, overbooking| {
        let name = "guaranteed".to_owned();
        ledger
            .classes()
            .with(Class {
                name,
                capacity,
                overbooking,
                order: Order::default(),
            })
            .unwrap()
    };
    assert!(ledger
        .check_classes(&with(300_000, Overbooking::Part(0)))
        .is_ok());
    assert!(ledger
        .check_classes(&with(1, Overbooking::Unlimited))
        .is_ok());
    let refusal = ledger
        .check_classes(&with(299_000, Overbooking::Part(0)))
        .unwrap_err();
    assert_eq!(refusal.errno, Errno::EBUSY);
    assert!(
        refusal.text.contains("release 0.001 first"),
        "{}",
        refusal.text
    );
    let mut frc = ledger.classes().get(0).unwrap().clone();
    frc.order = Order::Frc;
    let refusal = ledger
        .check_classes(&ledger.classes().with(frc).unwrap())
        .unwrap_err();
    assert_eq!(refusal.errno, Errno::EBUSY);
    assert!(ledger.check_classes(&ledger.classes().without(0)).is_err());
    assert!(ledger.check_classes(&ledger.classes().without(1)).is_ok());
}

#[test]
fn only_what_is_taken_in_has_a_number_and_the_least_follow_the_greatest() {
    let mut ledger = ledger();
    for number in [1, 3, u32::MAX - 1] {
        ledger.insert(number, reservation(0, 0, 100, number as i32));
    }
    assert_eq!([(); 3].map(|()| ledger.next_number()), [u32::MAX; 3]);
    for next in [u32::MAX, 2, 4, 5] {
        assert_eq!(ledger.next_number(), next);
        ledger.insert(next, reservation(0, 0, 100, next as i32));
    }
    // One that changes is no new one, and one that has gone leaves its number for later.
    ledger.insert(1, reservation(0, 0, 200, 1));
    ledger.remove(5);
    assert_eq!(ledger.next_number(), 6);
}

#[derive(Debug, Clone)]
enum Step {
    Reserve { uid: u32, class: usize, rate: u64 },
    Change { index: usize, rate: u64 },
    Release { index: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let rate = || 1u64..300_000;
    prop_oneof![
        4 => (0u32..4, 0usize..2, rate()).prop_map(|(uid, class, rate)| Step::Reserve { uid, class, rate }),
        1 => (any::<usize>(), rate()).prop_map(|(index, rate)| Step::Change { index, rate }),
        2 => any::<usize>().prop_map(|index| Step::Release { index }),
    ]
}

proptest! {
    /// Whatever is asked, in whatever order: no class has admitted more than it admits, no user has more than its
    /// limit, the sums are those of the reservations, and effective rates fill a class' capacity at most.
    #[test]
    fn never_more_than_there_is(steps in prop::collection::vec(step(), 1..120)) {
        let mut ledger = ledger();
        for step in steps {
            let nth = |ledger: &Ledger<Target>, index: usize| {
                let numbers: Vec<u32> = ledger.iter().map(|(number, _)| number).collect();
                (!numbers.is_empty()).then(|| numbers[index % numbers.len()])
            };
            match step {
                Step::Reserve { uid, class, rate } => {
                    if ledger.admit(uid, class, Rate(rate), None).is_ok() {
                        let number = ledger.next_number();
                        ledger.insert(number, reservation(uid, class, rate, number as i32));
                    }
                }
                Step::Change { index, rate } => {
                    let Some(number) = nth(&ledger, index) else { continue };
                    let old = ledger.get(number).unwrap().clone();
                    if ledger.admit(old.uid, old.class, Rate(rate), Some(number)).is_ok() {
                        ledger.insert(number, Reservation { rate: Rate(rate), ..old });
                    }
                }
                Step::Release { index } => {
                    if let Some(number) = nth(&ledger, index) {
                        ledger.remove(number);
                    }
                }
            }
            for (number, class) in ledger.classes().iter() {
                let of_class = || ledger.iter().filter(|(_, held)| held.class == number);
                let sum: Rate = of_class().map(|(_, held)| held.rate).sum();
                prop_assert_eq!(sum, ledger.asked(number));
                prop_assert!(sum <= class.admits().unwrap());
                let given: Rate = of_class().map(|(_, held)| ledger.effective(number, held.rate)).sum();
                prop_assert!(given <= class.capacity());
            }
            for uid in 1..4 {
                let sum: Rate = ledger.iter().filter(|(_, held)| held.uid == uid).map(|(_, held)| held.rate).sum();
                prop_assert!(sum <= UserLimits::default().rate);
            }
        }
    }
}
