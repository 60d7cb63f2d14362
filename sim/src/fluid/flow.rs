// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether tasks that may run on some CPUs only can all have what they ask for: a maximum flow from sets of CPUs to CPUs.
//!
//! CPUs that the same sets name are one *cell*. A task of at most one CPU fits into its set's CPUs without being on two at a
//! time whenever the sums fit (preemptive open shop, Gonzalez and Sahni 1976), so sums of each set are enough.

/// What is less is nothing.
const EPSILON: f64 = 1e-10;

/// Which sets may use which cells, and how many CPUs each cell has.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// By set: the cells in it.
    cells_of: Vec<Vec<usize>>,
    capacity: Vec<f64>,
}

/// The most that can be had of what the sets ask for.
pub struct Flow<'n> {
    network: &'n Network,
    /// By set and cell.
    flow: Vec<Vec<f64>>,
    unmet: Vec<f64>,
    free: Vec<f64>,
}

/// The sets that together ask for more than their CPUs have, and how much these have.
pub struct Crowd {
    pub sets: Vec<bool>,
    pub capacity: f64,
}

impl Network {
    /// Of CPUs numbered from 0, and sets of them.
    pub fn new(cpus: usize, sets: &[Vec<usize>]) -> Self {
        let mut names: Vec<Vec<usize>> = Vec::new();
        let mut capacity = Vec::new();
        let mut cells_of = vec![Vec::new(); sets.len()];
        for cpu in 0..cpus {
            let name: Vec<usize> = (0..sets.len())
                .filter(|set| sets[*set].contains(&cpu))
                .collect();
            if let Some(cell) = names.iter().position(|known| *known == name) {
                capacity[cell] += 1.0;
                continue;
            }
            for set in &name {
                cells_of[*set].push(names.len());
            }
            names.push(name);
            capacity.push(1.0);
        }
        Self { cells_of, capacity }
    }

    pub fn flow(&self, asked: &[f64]) -> Flow<'_> {
        let mut flow = Flow {
            network: self,
            flow: vec![vec![0.0; self.capacity.len()]; asked.len()],
            unmet: asked.to_vec(),
            free: self.capacity.clone(),
        };
        for set in 0..asked.len() {
            while flow.unmet[set] > EPSILON && flow.push(set) {}
        }
        flow
    }
}

impl Flow<'_> {
    /// None: all that was asked for is met.
    pub fn crowd(&self) -> Option<Crowd> {
        let mut sets = vec![false; self.unmet.len()];
        let mut cells = vec![false; self.free.len()];
        for set in 0..sets.len() {
            if self.unmet[set] > EPSILON {
                self.reach(set, &mut sets, &mut cells);
            }
        }
        let capacity = (0..cells.len())
            .filter(|cell| cells[*cell])
            .map(|cell| self.network.capacity[cell])
            .sum();
        sets.contains(&true).then_some(Crowd { sets, capacity })
    }

    /// Whether the set's tasks could have more, others moved to other CPUs.
    pub fn has_room(&self, set: usize) -> bool {
        let mut sets = vec![false; self.unmet.len()];
        let mut cells = vec![false; self.free.len()];
        self.reach(set, &mut sets, &mut cells);
        (0..cells.len()).any(|cell| cells[cell] && self.free[cell] > EPSILON)
    }

    /// All that more for `set` could come from.
    fn reach(&self, set: usize, sets: &mut [bool], cells: &mut [bool]) {
        if std::mem::replace(&mut sets[set], true) {
            return;
        }
        for &cell in &self.network.cells_of[set] {
            if std::mem::replace(&mut cells[cell], true) {
                continue;
            }
            for other in 0..sets.len() {
                if self.flow[other][cell] > EPSILON {
                    self.reach(other, sets, cells);
                }
            }
        }
    }

    /// Along a shortest path to a cell with room, as much as fits. False: there is none.
    fn push(&mut self, from: usize) -> bool {
        // By cell: the set through which it was reached; by set: the cell.
        let mut through: Vec<Option<usize>> = vec![None; self.free.len()];
        let mut back: Vec<Option<usize>> = vec![None; self.unmet.len()];
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(set) = queue.pop_front() {
            for &cell in &self.network.cells_of[set] {
                if through[cell].is_some() {
                    continue;
                }
                through[cell] = Some(set);
                if self.free[cell] > EPSILON {
                    self.shift(from, cell, &through, &back);
                    return true;
                }
                for (other, back) in back.iter_mut().enumerate() {
                    if other != from && back.is_none() && self.flow[other][cell] > EPSILON {
                        *back = Some(cell);
                        queue.push_back(other);
                    }
                }
            }
        }
        false
    }

    fn shift(&mut self, from: usize, to: usize, through: &[Option<usize>], back: &[Option<usize>]) {
        let mut path = Vec::new();
        let mut amount = self.unmet[from].min(self.free[to]);
        let mut cell = to;
        while let Some(set) = through[cell] {
            path.push((set, cell));
            let Some(before) = back[set].filter(|_| set != from) else {
                break;
            };
            amount = amount.min(self.flow[set][before]);
            cell = before;
        }
        self.free[to] -= amount;
        self.unmet[from] -= amount;
        for (set, cell) in path {
            self.flow[set][cell] += amount;
            if let Some(before) = back[set].filter(|_| set != from) {
                self.flow[set][before] -= amount;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        Network::new(3, &[vec![0], vec![0, 1], vec![0, 1, 2]])
    }

    #[test]
    fn others_are_moved_where_that_makes_room() {
        // The second and third are put on CPU 0 first, and must leave it.
        let network = Network::new(3, &[vec![0, 1, 2], vec![0, 1], vec![0]]);
        let flow = network.flow(&[1.0, 1.0, 1.0]);
        assert!(flow.crowd().is_none());
        assert!(!flow.has_room(0) && !flow.has_room(1) && !flow.has_room(2));
    }

    #[test]
    fn a_crowd_is_all_who_share_what_is_too_little() {
        let network = network();
        let flow = network.flow(&[0.75, 1.5, 0.5]);
        let crowd = flow.crowd().expect("2.25 on two CPUs");
        assert_eq!((crowd.sets, crowd.capacity), (vec![true, true, false], 2.0));
        assert!(flow.has_room(2) && !flow.has_room(1));
    }

    #[test]
    fn cpus_that_nobody_tells_apart_are_one_cell() {
        let network = Network::new(1024, &[(0..1024).collect(), (0..512).collect()]);
        assert_eq!(network.capacity, [512.0, 512.0]);
        assert!(network.flow(&[512.0, 512.0]).crowd().is_none());
        assert!(network.flow(&[0.0, 512.5]).crowd().is_some());
    }
}
