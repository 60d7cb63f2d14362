// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is refused, from C sources and from any bytes, and what each refusal says.

use std::{fs, path::PathBuf};

use consort_df::{build, df_group, BuildError, Kind, Object, Problem, Record, OBJECT_BYTES_MAX};
use proptest::prelude::*;

/// A source in a folder of its own.
fn object(name: &str, source: &str) -> Result<Object, Problem> {
    let folder = std::env::temp_dir().join(format!("consort-df-rules-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path: PathBuf = folder.join(format!("{name}.c"));
    fs::write(&path, format!("#include <consort_df.h>\n{source}\n")).unwrap();
    let bytes = build(&path).unwrap();
    Object::read(&bytes)
}

fn refused(name: &str, source: &str, words: &[&str]) {
    let problem = object(name, source).expect_err(name).to_string();
    for word in words {
        assert!(problem.contains(word), "{name}: {problem}");
    }
}

const KEY: &str = "unsigned long long df_key(struct df_group *g, unsigned int i)";

#[test]
fn each_refused_construct_is_named() {
    let key = |body: &str| format!("{KEY} {{ {body} }}");
    refused("none", "int other;", &[".bss"]);
    refused("empty", "", &["defines no function", "df_key or df_pick"]);
    refused(
        "both",
        "long df_pick(struct df_group *g) { return 0; } unsigned long long df_key(struct df_group *g, unsigned int i) { return 0; }",
        &["both"],
    );
    refused(
        "visible",
        &format!(
            "long other(long a) {{ return a * 2; }} {}",
            key("return other(i);")
        ),
        &["other", "static inline"],
    );
    refused(
        "variable",
        &format!("static long kept; {}", key("return kept++;")),
        &[".bss", "memory"],
    );
    refused(
        "table",
        &format!(
            "static const long table[32] = {{ 5, 3, 9, 1 }}; {}",
            key("return table[i & 31];")
        ),
        &[".rodata"],
    );
    refused(
        "helper",
        &key("long (*time)(void) = (void *)5; return time();"),
        &["calls something"],
    );
    refused(
        "outside",
        &format!("extern long far; {}", key("return far;")),
        &["far"],
    );
    refused(
        "call",
        &format!(
            "static __attribute__((noinline)) long twice(struct df_group *g) {{ return g->memory[0]++; }} {}",
            key("return twice(g) + twice(g);")
        ),
        &["calls something"],
    );
    refused(
        "array",
        &key("volatile long seen[8]; for (int k = 0; k < 8; k++) seen[k] = g->member[k].state[0]; return seen[i & 7];"),
        &["address of a local variable"],
    );
    refused(
        "atomic",
        &key("return __sync_fetch_and_add(&g->memory[0], 1);"),
        &["atomic"],
    );
    refused(
        "may_goto",
        &key("asm volatile goto(\"may_goto %l[out]\" :::: out); out: return 1;"),
        &["no instruction that a function may use"],
    );
    refused(
        "stack",
        &key("unsigned long at; asm volatile(\"%0 = r10\" : \"=r\"(at)); return at;"),
        &["address of a local variable"],
    );
}

#[test]
fn what_does_not_compile_is_said_with_its_line() {
    let folder = std::env::temp_dir().join(format!("consort-df-source-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("wrong.c");
    fs::write(
        &path,
        "#include <consort_df.h>\nint df_pick(struct df_group *g) { return 0; }\n",
    )
    .unwrap();
    let error = build(&path).unwrap_err();
    assert!(matches!(error, BuildError::Source { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("wrong.c:2") && said.contains("conflicting types"),
        "{said}"
    );
    assert!(matches!(
        build(&folder.join("nowhere.c")),
        Err(BuildError::File { .. })
    ));
}

#[test]
fn other_files_are_no_objects() {
    for bytes in [&b""[..], b"\x7fELF", &[0; 4096][..]] {
        assert!(matches!(Object::read(bytes), Err(Problem::NoObject(_))));
    }
    let own = fs::read(std::env::current_exe().unwrap()).unwrap();
    let own = &own[..own.len().min(OBJECT_BYTES_MAX)];
    assert!(Object::read(own).is_err());
    let long = vec![0; OBJECT_BYTES_MAX + 1];
    assert_eq!(Object::read(&long), Err(Problem::TooLarge(long.len())));
}

/// Any function that is accepted ends, and reaches its own record only: bounds are checked by this machine.
fn runs(kind: Kind, code: &[u8], group: &df_group) {
    if let Ok(object) = Object::of_code(kind, code) {
        let confined = object.confine();
        assert!(confined.is_ok_and(|it| it.instructions() > object.instructions()));
        object.run(&mut Record::new(group));
    }
}

/// Codes that are often right, with whatever operands.
fn instruction() -> impl Strategy<Value = [u8; 8]> {
    let codes = prop_oneof![
        Just(0x79u8),
        Just(0x61),
        Just(0x7b),
        Just(0x7a),
        Just(0xbf),
        Just(0xb7),
        Just(0x0f),
        Just(0x1f),
        Just(0x2f),
        Just(0x3f),
        Just(0x9f),
        Just(0x67),
        Just(0x77),
        Just(0xc7),
        Just(0xcf),
        Just(0x05),
        Just(0x15),
        Just(0x2d),
        Just(0xa5),
        Just(0x95),
        Just(0x87),
        Just(0xd4),
        Just(0xdc),
        Just(0xbc),
        Just(0xb4),
        Just(0x91),
        Just(0x73),
        any::<u8>(),
    ];
    let offset = prop_oneof![-8i16..8, -300i16..0, any::<i16>()];
    let number = prop_oneof![-8i32..70, any::<i32>()];
    (codes, 0u8..11, 0u8..11, offset, number).prop_map(|(code, to, from, offset, number)| {
        // Operands that an instruction does not have are to be 0.
        let class = code & 7;
        let is_access = class == 1 || class == 2 || class == 3;
        let is_jump = (class == 5 || class == 6) && code != 0x95;
        let has_register = code & 8 != 0;
        let from = match (class, is_access, has_register) {
            (2, ..) => 0,
            (_, true, _) | (_, _, true) => from,
            _ => 0,
        };
        let number = match (class, is_access, has_register) {
            (1 | 3, ..) => 0,
            (2, ..) | (_, false, false) => number,
            _ => 0,
        };
        let offset = if is_access || is_jump { offset } else { 0 };
        let (to, from, number) = if code == 0x05 {
            (0, 0, 0)
        } else {
            (to, from, number)
        };
        let mut bytes = [code, to | from << 4, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_le_bytes());
        bytes[4..].copy_from_slice(&number.to_le_bytes());
        if code == 0x95 {
            [0x95, 0, 0, 0, 0, 0, 0, 0]
        } else {
            bytes
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_no_object_or_a_function(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = Object::read(&bytes);
        let _ = Object::of_code(Kind::Pick, &bytes);
    }

    #[test]
    fn any_function_ends_within_its_record(
        code in proptest::collection::vec(instruction(), 1..24),
        fill in any::<u8>(),
        keys in any::<bool>(),
    ) {
        let mut bytes: Vec<u8> = code.concat();
        bytes.extend([0x95, 0, 0, 0, 0, 0, 0, 0]);
        // SAFETY: numbers, for which any bytes are values.
        let group: df_group = unsafe { std::mem::transmute([fill; size_of::<df_group>()]) };
        runs(if keys { Kind::Keys } else { Kind::Pick }, &bytes, &group);
    }

    /// An object that was right, with a byte changed.
    #[test]
    fn a_damaged_object_is_refused_or_right(at in 0usize..4000, to in any::<u8>()) {
        static WHOLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let whole = WHOLE.get_or_init(|| {
            build(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/laxity.c")).unwrap()
        });
        let mut bytes = whole.clone();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(object) = Object::read(&bytes) {
            object.run(&mut Record::default());
        }
    }
}
