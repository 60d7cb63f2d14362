// SPDX-License-Identifier: MIT OR Apache-2.0
//! A display server that shows its windows nowhere: an Xvfb.

use consort_bench_player::error::Error;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Of the first one; low numbers are those of people.
const FIRST_DISPLAY: usize = 7;
const SCREEN: &str = "640x480x24";
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends with this.
pub struct DisplayServer {
    child: Child,
    display: usize,
}

impl DisplayServer {
    /// Starts the `number`-th one, and waits until it can be reached. `command` becomes the server.
    ///
    /// # Errors
    /// When it cannot be started, or cannot be reached within a minute.
    pub fn start(mut command: Command, number: usize) -> Result<Self, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let display = FIRST_DISPLAY + number;
        let child = command
            .arg(format!(":{display}"))
            .args(["-screen", "0", SCREEN, "-nolisten", "tcp"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| Error::io(format!("start {program}"), source))?;
        let server = Self { child, display };
        let socket = PathBuf::from(format!("/tmp/.X11-unix/X{display}"));
        let begun = Instant::now();
        while !socket.exists() {
            if begun.elapsed() > PATIENCE {
                return Err(Error::Usage(format!(
                    "{program} did not open {} within {PATIENCE:?}",
                    socket.display()
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// As programs are told where to show.
    pub fn display(&self) -> String {
        format!(":{}", self.display)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for DisplayServer {
    fn drop(&mut self) {
        // That it has ended already is no news.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
