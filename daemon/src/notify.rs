// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the service manager how the daemon is (the protocol of sd_notify(3)); silent where there is none.

use std::{
    env,
    os::linux::net::SocketAddrExt,
    os::unix::net::{SocketAddr, UnixDatagram},
};

use tracing::warn;

/// Sends `state`, such as `READY=1`, to the socket that `NOTIFY_SOCKET` names.
pub fn notify(state: &str) {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(rest) => SocketAddr::from_abstract_name(rest),
        None => {
            use std::os::unix::ffi::OsStrExt;
            SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))
        }
    };
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = sent {
        warn!(%error, "cannot notify the service manager");
    }
}
