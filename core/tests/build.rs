// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Compiles the policy for the host, and generates the Rust side of its structures from the same source.

use std::{env, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=shim.c");
    println!("cargo:rerun-if-changed=shim_domains.c");
    println!("cargo:rerun-if-changed=..");
    cc::Build::new()
        .files(["shim.c", "shim_domains.c"])
        .include("..")
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .try_compile("core")?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("policy.rs");
    bindgen::Builder::default()
        .headers(["shim.c", "shim_domains.c"])
        .clang_arg("-I..")
        .allowlist_function("core_.*")
        .allowlist_type(
            "choice|enum_node_kind|coop_order|due_wait|node_kind|function_kind|miss|plan|interval",
        )
        .allowlist_var("WEIGHT_ONE|WEIGHT_SHIFT|VTIME_SHIFT|CHARGE_MAX_NS|TREE_DEPTH_MAX")
        .allowlist_var("PATIENCE_NS|PRIORITY_NONE|NICE_LEVELS|SEATS_MAX|SEAT_GIVES_NS")
        .allowlist_var("LAG_MAX_NS|SERVED_BEHIND_MAX|LIVE_WAIT_NS|LIVE_PART|LIVE_LOOKS|LOAD_SHIFT|LEDGER_CPU|OWING_SHIFT|FIRST_ROUNDS|MEMBERS_ROUNDS|MEAN_MAX_NS")
        .allowlist_var("NO_PERIOD|PERIOD_AHEAD_MAX_NS|RUNS_BEHIND_MAX_NS|NODE_.*|ORDER_.*|ROLES_MAX|PIPELINE_.*|FUNCTION_.*|MISS_.*|USER_.*")
        .prepend_enum_name(false)
        .derive_default(true)
        .generate()?
        .write_to_file(out)?;
    Ok(())
}
