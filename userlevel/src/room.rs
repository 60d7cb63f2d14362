// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many members have a turn at a time: as many as their CPUs can run.

use crate::layout::RUNNING;
use crate::table::Place;

/// Whether one more member, which does not run yet or is `candidate` itself, may run beside those that do, were `leaves` not
/// among them: on no set of CPUs that one of them is bound to are then more than run there. Members that are bound to sets
/// which overlap in part may still meet on one CPU.
pub fn has_room(places: &[Place], candidate: usize, leaves: Option<usize>) -> bool {
    let bound_to = places[candidate].cpus;
    let others = || {
        let is_other =
            move |i: &usize| *i != candidate && Some(*i) != leaves && places[*i].state == RUNNING;
        (0..places.len()).filter(is_other).map(|i| &places[i])
    };
    let is_full = |set: &Place| {
        let within = others().filter(|place| place.cpus & !set.cpus == 0);
        within.count() >= set.cpus_most as usize
    };
    let is_around = |place: &&Place| place.cpus != bound_to && bound_to & !place.cpus == 0;
    !is_full(&places[candidate]) && !others().filter(is_around).any(is_full)
}

/// How many members have a turn.
pub fn running(places: &[Place]) -> usize {
    let has_turn = |place: &&Place| place.state == RUNNING;
    places.iter().filter(has_turn).count()
}

/// How many can have one at most: what all sets of CPUs together can run that are within no other. Where all members are bound
/// alike, which is the rule, it looks at each of them a few times; a decision asks once.
pub fn seats(places: &[Place]) -> usize {
    let taken = |place: &&Place| place.owner != 0;
    let is_counted = |i: usize, set: &Place| {
        let is_same = |place: &Place| place.cpus == set.cpus;
        let is_around = |place: &Place| place.cpus != set.cpus && set.cpus & !place.cpus == 0;
        let mut before = places[..i].iter().filter(taken);
        !before.any(is_same) && !places.iter().filter(taken).any(is_around)
    };
    let sets = places.iter().enumerate().filter(|(_, set)| taken(set));
    let counted = sets.filter(|(i, set)| is_counted(*i, set));
    counted.map(|(_, set)| set.cpus_most as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::WAITING;

    /// Members by what they are bound to, how many of them their CPUs can run, and whether they run.
    fn domain(members: &[(u64, u32, bool)]) -> Vec<Place> {
        let place = |&(cpus, cpus_most, runs): &(u64, u32, bool)| Place {
            owner: 1,
            state: if runs { RUNNING } else { WAITING },
            cpus,
            cpus_most,
            ..Place::default()
        };
        members.iter().map(place).collect()
    }

    fn last_has_room(members: &[(u64, u32, bool)], leaves: Option<usize>) -> bool {
        has_room(&domain(members), members.len() - 1, leaves)
    }

    #[test]
    fn one_cpu_runs_one_member() {
        let one = (0b1, 1, false);
        assert!(last_has_room(&[one, one], None));
        assert!(!last_has_room(&[(0b1, 1, true), one], None));
        assert!(last_has_room(&[(0b1, 1, true), one], Some(0)));
        assert!(last_has_room(&[(0b10, 1, true), one], None));
    }

    #[test]
    fn as_many_run_as_their_cpus_can() {
        let two = |runs| (0b11, 2, runs);
        assert!(last_has_room(&[two(true), two(false)], None));
        assert!(!last_has_room(&[two(true), two(true), two(false)], None));
        // Half of a container's four.
        let of_four = |runs| (0b1111, 2, runs);
        assert!(!last_has_room(
            &[of_four(true), of_four(true), of_four(false)],
            None
        ));
    }

    #[test]
    fn a_member_of_one_cpu_has_no_room_where_those_around_it_are_all_in_use() {
        let wide = (0b11, 2, true);
        assert!(last_has_room(&[wide, (0b1, 1, false)], None));
        assert!(!last_has_room(&[wide, wide, (0b1, 1, false)], None));
        assert!(last_has_room(&[wide, wide, (0b1, 1, false)], Some(1)));
        assert!(last_has_room(&[(0b1, 1, true), (0b11, 2, false)], None));
        let pinned = [(0b1, 1, true), (0b10, 1, true), (0b11, 2, false)];
        assert!(!last_has_room(&pinned, None));
    }

    #[test]
    fn there_are_seats_for_what_all_sets_of_cpus_can_run() {
        let mut places = domain(&[(0b1, 1, true), (0b111, 3, false)]);
        assert_eq!((seats(&places), running(&places)), (3, 1));
        places[1].owner = 0;
        assert_eq!(seats(&places), 1);
        let (one, other) = ((0b1, 1, true), (0b10, 1, false));
        assert_eq!(seats(&domain(&[one, other, other])), 2);
        assert_eq!(seats(&domain(&[one, other, (0b11, 2, false)])), 2);
        assert_eq!(seats(&domain(&[one, other, (0b11, 1, false)])), 1);
        assert_eq!(seats(&[]), 0);
    }
}
