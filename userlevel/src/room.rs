// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many members have a turn at a time: as many as their CPUs can run.

use crate::layout::RUNNING;
use crate::table::Place;

/// So many sets of CPUs are told apart; members that are bound to further ones count as those of the first. What a decision costs
/// is not to depend on what somebody writes there.
const SETS: usize = 64;

/// The sets of CPUs that members are bound to.
#[derive(Default)]
pub struct Room {
    sets: Vec<Set>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Set {
    cpus: u64,
    /// How many members may run there.
    most: u32,
}

impl Set {
    fn is_within(&self, other: &Set) -> bool {
        self.cpus & !other.cpus == 0
    }
}

impl Room {
    /// Finds the sets, and tells each place which one is its own.
    pub fn find(&mut self, places: &mut [Place]) {
        self.sets.clear();
        for place in places.iter_mut().filter(|place| place.owner != 0) {
            let own = Set {
                cpus: place.cpus,
                most: place.cpus_most,
            };
            let known = self.sets.iter().position(|set| *set == own);
            place.set = known.unwrap_or(self.sets.len() % SETS);
            if known.is_none() && self.sets.len() < SETS {
                self.sets.push(own);
            }
        }
    }

    /// Whether one more member, which does not run yet or is `candidate` itself, may run beside those that do, were `leaves` not
    /// among them: on no set of CPUs that one of them is bound to are then more than run there. Members that are bound to sets
    /// which overlap in part may still meet on one CPU.
    pub fn is_for(&self, places: &[Place], candidate: usize, leaves: Option<usize>) -> bool {
        let Some(own) = self.sets.get(places[candidate].set) else {
            return true;
        };
        let mut running = [0u32; SETS];
        for (i, place) in places.iter().enumerate() {
            if i != candidate && Some(i) != leaves && place.state == RUNNING {
                running[place.set] += 1;
            }
        }
        let bound = || self.sets.iter().zip(&running);
        let is_full = |set: &Set| {
            let within = bound().filter(|(other, _)| other.is_within(set));
            within.map(|(_, running)| running).sum::<u32>() >= set.most
        };
        let is_around = |set: &Set| set.cpus != own.cpus && own.is_within(set);
        let mut around = bound().filter(|(set, &running)| running > 0 && is_around(set));
        !is_full(own) && !around.any(|(set, _)| is_full(set))
    }

    /// How many members can have a turn at most: what all sets of CPUs together can run that are within no other.
    pub fn seats(&self) -> usize {
        let is_counted = |i: usize, set: &Set| {
            let is_around = |other: &Set| other.cpus != set.cpus && set.is_within(other);
            let is_first = !self.sets[..i].iter().any(|other| other.cpus == set.cpus);
            is_first && !self.sets.iter().any(is_around)
        };
        let counted = self.sets.iter().enumerate();
        let counted = counted.filter(|(i, set)| is_counted(*i, set));
        counted.map(|(_, set)| set.most as usize).sum()
    }
}

/// How many members have a turn.
pub fn running(places: &[Place]) -> usize {
    let has_turn = |place: &&Place| place.state == RUNNING;
    places.iter().filter(has_turn).count()
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
        let (mut places, mut room) = (domain(members), Room::default());
        room.find(&mut places);
        room.is_for(&places, members.len() - 1, leaves)
    }

    fn seats(places: &[Place]) -> usize {
        let mut room = Room::default();
        room.find(&mut places.to_vec());
        room.seats()
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

    #[test]
    fn more_sets_of_cpus_than_are_told_apart_count_as_the_first() {
        let bound = |i: usize| (1 << (i % 64) | 1 << (i / 64 % 64), 2, i.is_multiple_of(2));
        let members: Vec<_> = (1..=1023).map(bound).collect();
        let (mut places, mut room) = (domain(&members), Room::default());
        room.find(&mut places);
        assert_eq!(room.sets.len(), SETS);
        assert!(places.iter().all(|place| place.set < SETS));
        assert_eq!(places[1022].set, 0);
        // None is told apart here: there is nothing to be exceeded.
        assert!(Room::default().is_for(&places, 1022, None));
    }
}
