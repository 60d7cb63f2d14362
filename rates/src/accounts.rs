// SPDX-License-Identifier: MIT OR Apache-2.0
//! On whose account a user number is. Subordinate numbers (subuid(5)) are their owner's, however many there are: who can
//! multiply into many users is still limited as one.

/// Ranges of subordinate numbers, and whose they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    ranges: Vec<Range>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    count: u32,
    owner: u32,
}

impl Accounts {
    /// Reads the texts of /etc/subuid and /etc/passwd. Lines that cannot be understood count for nothing, as for
    /// newuidmap(1). Numbers that root has given itself stay accounts of their own: root gives them to many. Those of a user
    /// whom the list does not have, such as one of LDAP's, are on the account of their first.
    pub fn parse(subordinate: &str, users: &str) -> Accounts {
        let range = |line: &str| {
            let mut fields = line.trim().split(':');
            let owner = number_in(users, fields.next()?);
            let (first, count) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            let owner = owner.unwrap_or(first);
            (owner != 0).then_some(Range {
                first,
                count,
                owner,
            })
        };
        Accounts {
            ranges: subordinate.lines().filter_map(range).collect(),
        }
    }

    /// Whose account `uid` is on.
    pub fn of(&self, uid: u32) -> u32 {
        let is_in = |range: &&Range| {
            let above = uid.checked_sub(range.first);
            above.is_some_and(|above| above < range.count)
        };
        let range = self.ranges.iter().find(is_in);
        range.map_or(uid, |range| range.owner)
    }
}

/// The number of a user or a group: as it is written, or as `list`, the text of /etc/passwd or /etc/group, has it.
pub fn number_in(list: &str, name: &str) -> Option<u32> {
    let listed = || {
        list.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_it = fields.next() == Some(name);
            fields.nth(1).filter(|_| is_it)?.parse().ok()
        })
    };
    name.parse().ok().or_else(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subordinate_numbers_are_their_owners() {
        let users = "root:x:0:0::/:\nann:x:1000:1000::/:\nbob:x:1001:1001::/:\n";
        let subordinate =
            "ann:100000:65536\n1001:200000:10\nroot:300000:65536\nno-such:400000:10\nbroken\nann:x:y\n";
        let accounts = Accounts::parse(subordinate, users);
        for (uid, account) in [
            (0, 0),
            (1000, 1000),
            (99_999, 99_999),
            (100_000, 1000),
            (165_535, 1000),
            (165_536, 165_536),
            (200_009, 1001),
            (300_000, 300_000),
            // Another service than /etc/passwd knows this user.
            (400_000, 400_000),
            (400_009, 400_000),
            (400_010, 400_010),
            (u32::MAX, u32::MAX),
        ] {
            assert_eq!(accounts.of(uid), account, "{uid}");
        }
    }
}
