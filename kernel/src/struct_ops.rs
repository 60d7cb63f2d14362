// SPDX-License-Identifier: GPL-2.0-only
//! Where the kernel's BTF has what programs of a scheduler are loaded for.

use std::{ffi::CStr, sync::OnceLock};

use crate::Error;

/// The kernel's numbers of `struct sched_ext_ops` and of its member `dispatch`.
pub(crate) fn dispatch() -> Result<(u32, u32), Error> {
    // Reading the kernel's BTF takes longer than it takes the kernel to verify a small function.
    static KNOWN: OnceLock<(u32, u32)> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let found = member(c"dispatch").ok_or_else(|| Error::Load {
        doing: "name the type of its decision functions",
        detail: "there is no struct sched_ext_ops in its BTF".to_owned(),
    })?;
    Ok(*KNOWN.get_or_init(|| found))
}

/// Whether the kernel has a scheduler's operation of this name.
pub(crate) fn has(name: &CStr) -> bool {
    member(name).is_some()
}

fn member(wanted: &CStr) -> Option<(u32, u32)> {
    // SAFETY: libbpf's own objects, asked as its documentation says; names are looked at while they are there.
    unsafe {
        let btf = libbpf_sys::btf__load_vmlinux_btf();
        if btf.is_null() {
            return None;
        }
        let id = libbpf_sys::btf__find_by_name_kind(
            btf,
            c"sched_ext_ops".as_ptr(),
            libbpf_sys::BTF_KIND_STRUCT,
        );
        let found = u32::try_from(id).ok().and_then(|id| {
            let at = libbpf_sys::btf__type_by_id(btf, id);
            if at.is_null() {
                return None;
            }
            let members = at.add(1).cast::<libbpf_sys::btf_member>();
            let is_wanted = |index: &u32| {
                let name =
                    libbpf_sys::btf__name_by_offset(btf, (*members.add(*index as usize)).name_off);
                !name.is_null() && CStr::from_ptr(name) == wanted
            };
            let index = (0..(*at).info & 0xffff).find(is_wanted)?;
            Some((id, index))
        });
        libbpf_sys::btf__free(btf);
        found
    }
}
