// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that do nothing.

use nix::{
    sys::{
        prctl,
        signal::{kill, Signal},
        wait::waitpid,
    },
    unistd::{fork, pause, ForkResult, Pid},
};

/// They are killed when it is dropped, and when the process ends that has started them.
#[derive(Debug)]
pub struct Sleepers(pub Vec<Pid>);

impl Sleepers {
    /// Before this process has threads.
    pub fn start(number: usize) -> Result<Sleepers, String> {
        let mut sleepers = Sleepers(Vec::with_capacity(number));
        for _ in 0..number {
            // SAFETY: this process has one thread; the child does nothing but wait.
            match unsafe { fork() } {
                Ok(ForkResult::Parent { child }) => sleepers.0.push(child),
                Ok(ForkResult::Child) => loop {
                    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
                    pause();
                },
                Err(errno) => {
                    return Err(format!(
                        "cannot start process {}: {errno}",
                        sleepers.0.len()
                    ))
                }
            }
        }
        Ok(sleepers)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill(*pid, Signal::SIGKILL);
            let _ = waitpid(*pid, None);
        }
    }
}
