// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules: which threads have a name without announcing it (003 section 3.1.3 has names that are announced only). All that
//! a rule says must hold.

use std::fmt;

/// What is left out may be anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The program's file.
    pub executable: Option<String>,
    /// The thread's name; of a process' first thread, the process'.
    pub thread: Option<String>,
    /// A cgroup's folder below the hierarchy's root: that itself, or any below it.
    pub cgroup: Option<String>,
    /// By name or number; without it, the file's owner.
    pub user: Option<String>,
    /// The name of the process that has started the thread's.
    pub parent: Option<String>,
}

/// Keys of a rule in a file.
pub const KEYS: [&str; 5] = ["executable", "thread", "cgroup", "user", "parent"];
/// Bytes of a thread's name: the kernel keeps no more.
pub const THREAD_BYTES_MAX: usize = 15;
/// Bytes of a path: the kernel takes no longer one.
pub const PATH_BYTES_MAX: usize = 4095;
/// Bytes of a user's name or number.
pub const USER_BYTES_MAX: usize = 255;

/// What is known of a thread; the user is compared by whoever knows users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub executable: &'a str,
    pub thread: &'a str,
    pub cgroup: &'a str,
    pub parent: &'a str,
}

impl Rule {
    pub fn is_empty(&self) -> bool {
        *self == Rule::default()
    }

    /// Whether all but the user is as the rule says.
    pub fn fits(&self, candidate: &Candidate) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        is(&self.executable, candidate.executable)
            && is(&self.thread, candidate.thread)
            && is(&self.parent, candidate.parent)
            && self
                .cgroup
                .as_deref()
                .is_none_or(|folder| is_below(candidate.cgroup, folder))
    }
}

/// `a/b` is below `a` and below itself, `ab` is not.
fn is_below(path: &str, folder: &str) -> bool {
    let path = path.trim_matches('/');
    let rest = path.strip_prefix(folder.trim_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = [
            &self.executable,
            &self.thread,
            &self.cgroup,
            &self.user,
            &self.parent,
        ];
        let said = KEYS.iter().zip(values);
        let said = said.filter_map(|(key, value)| Some((key, value.as_ref()?)));
        for (number, (key, value)) in said.enumerate() {
            let space = if number > 0 { " " } else { "" };
            write!(f, "{space}{key}={value:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: Candidate = Candidate {
        executable: "/usr/bin/player",
        thread: "show",
        cgroup: "/user.slice/films",
        parent: "bash",
    };

    fn rule(change: impl FnOnce(&mut Rule)) -> bool {
        let mut rule = Rule::default();
        change(&mut rule);
        rule.fits(&THREAD)
    }

    #[test]
    fn all_that_is_said_must_hold() {
        let own = |text: &str| Some(text.to_owned());
        assert!(rule(|rule| rule.executable = own("/usr/bin/player")));
        assert!(!rule(|rule| rule.executable = own("/usr/bin/play")));
        assert!(rule(|rule| {
            rule.thread = own("show");
            rule.parent = own("bash");
        }));
        assert!(!rule(|rule| {
            rule.thread = own("show");
            rule.parent = own("zsh");
        }));
    }

    #[test]
    fn a_cgroup_includes_those_below() {
        for (folder, fits) in [
            ("user.slice", true),
            ("user.slice/films", true),
            ("/user.slice/films/", true),
            ("user.slice/film", false),
            ("films", false),
        ] {
            let own = Some(folder.to_owned());
            assert_eq!(rule(|rule| rule.cgroup = own), fits, "{folder}");
        }
    }
}
