// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the policy, core/'s own, into this host. The link beside this file brings core/ into the published crate, too.

fn main() -> Result<(), cc::Error> {
    for path in ["src/policy.c", "src/policy.h", "core"] {
        println!("cargo:rerun-if-changed={path}");
    }
    cc::Build::new()
        .file("src/policy.c")
        .include("core")
        .std("gnu11")
        // Functions of core/ are compiled once, as for the kernel: libconsort is small.
        .define("core_fn", "static __attribute__((noinline)) int")
        .define("in_arena", "")
        .opt_level(2)
        .flag("-fvisibility=hidden")
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-function")
        .warnings_into_errors(true)
        .try_compile("consort_userlevel_policy")
}
