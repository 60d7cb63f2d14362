// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names the shared library as `make install` installs it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libconsort.so.0");
}
