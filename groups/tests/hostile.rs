// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that were written to keep the daemon busy: reading them ends at once, whatever they say.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use consort_groups::{frames, read, FILE_BYTES_MAX};

/// Without bounds these took minutes; the longest right file takes some milliseconds.
const AT_ONCE: Duration = Duration::from_secs(2);

/// What is wrong with the longest file that begins with `head`, goes on with as many of `part` as fit, and ends with `tail`.
fn refused(head: &str, part: impl Fn(usize) -> String, tail: &str) -> String {
    let mut text = head.to_owned();
    for number in 0.. {
        let part = part(number);
        if text.len() + part.len() + tail.len() > FILE_BYTES_MAX {
            break;
        }
        text += &part;
    }
    text += tail;
    let began = Instant::now();
    let problems = read("f.toml", "f", &text).unwrap_err().to_string();
    let took = began.elapsed();
    assert!(took < AT_ONCE, "{took:?}: {problems}");
    problems
}

#[test]
fn thousands_of_groups_are_counted_and_no_more() {
    let told = refused(
        "",
        |number| format!("[group.g{number}]\nclass=\"c\"\nrate=1\nparent=\"zz\"\n"),
        "[group.zz]\nclass=\"c\"\nrate=1\n",
    );
    assert!(told.contains("expected at most 64 in a file"), "{told}");
}

#[test]
fn thousands_of_variables_are_not_given_to_each_member() {
    let mut members = String::from("}\nmembers=[");
    for number in 0..2048 {
        let _ = write!(members, "\"m{number}\",");
    }
    members += "]\n";
    let told = refused(
        "[group.g]\ncontrol={x=0}\nstate={",
        |number| format!("v{number}=0,"),
        &members,
    );
    assert!(told.contains("variables: expected at most 4"), "{told}");
}

#[test]
fn a_group_with_an_endless_name_is_not_read() {
    let members = format!("]\nmembers=[{}]\n", "{},".repeat(2048));
    let told = refused("[group.", |_| "x".repeat(64), &members);
    assert!(
        told.contains("cannot be the name of a group"),
        "{}",
        told.len()
    );
}

#[test]
fn members_by_the_thousand_in_many_groups() {
    let members = format!("members=[{}]\n", "\"a\",".repeat(2048));
    refused("", |number| format!("[group.g{number}]\n{members}"), "");
    let follows = format!("members=[{}]\n", "{name=\"a\",follows=\"b\"},".repeat(2048));
    refused("", |number| format!("[group.g{number}]\n{follows}"), "");
}

#[test]
fn depth_is_bounded() {
    refused("a=", |_| "[".to_owned(), "");
    refused("a=", |_| "{a=".to_owned(), "");
    refused("a", |_| ".a".to_owned(), "=1\n");
    refused("[a", |_| ".a".to_owned(), "]\n");
    refused("[[a", |_| ".a".to_owned(), "]]\n");
    refused("", |_| "[[a]]\n".to_owned(), "");
    refused("a={a", |_| ".a".to_owned(), "=1}\n");
    refused("", |number| format!("a{}=1\n", ".a".repeat(number)), "");
}

/// What is told of a member is one message.
#[test]
fn rules_are_no_longer_than_what_they_name() {
    for (key, from, max) in [
        ("executable", "/", 4095),
        ("cgroup", "a", 4095),
        ("user", "0", 255),
    ] {
        let rule = |bytes: usize| {
            let text = from.to_owned() + &"1".repeat(bytes - 1);
            let text = format!("[group.g]\nmembers=[{{name=\"m\",rule={{{key}=\"{text}\"}}}}]");
            read("f.toml", "f", &text).map_err(|problems| problems.to_string())
        };
        assert!(rule(max).is_ok(), "{key}");
        let told = rule(max + 1).unwrap_err();
        let said = format!("rule.{key}: has {} bytes: expected at most {max}", max + 1);
        assert!(told.contains(&said), "{told}");
    }
}

#[test]
fn numbers_that_are_none_are_refused() {
    for rate in [
        "nan",
        "-nan",
        "inf",
        "-inf",
        "1e400",
        "-0.0",
        "0",
        "1e-300",
        "1.0000006",
        "2",
        "-1",
        "\"nan%\"",
        "\"inf%\"",
        "\"-5%\"",
        "\"1e9%\"",
        "0x7fffffffffffffff",
        "9223372036854775808",
        "99999999999999999999",
        "true",
        "[]",
    ] {
        let text = format!("[group.g]\nclass = \"c\"\nrate = {rate}\nmembers = [\"m\"]");
        assert!(read("f", "f", &text).is_err(), "{rate}");
    }
    for count in [
        "0",
        "-1",
        "2049",
        "4294967297",
        "1.5",
        "nan",
        "0xffffffffffffffff",
    ] {
        let text = format!("[group.g]\nmembers = [{{ name = \"m\", count = {count} }}]");
        assert!(read("f", "f", &text).is_err(), "{count}");
    }
    for delay in [
        "nan",
        "inf",
        "1e5",
        "-1",
        "+1",
        ".",
        "1.",
        ".5",
        "0x10",
        "1_0",
        "18446744073709.551616",
        "99999999999999999999",
        "2592000001",
        "0,18446744073709",
        "0,0.09",
        "0,-1",
    ] {
        assert!(frames::read("f", delay, 1_000_000).is_err(), "{delay}");
    }
    // Each of them may be, and not their sum.
    let many = "2000000000\n".repeat(20_000);
    assert!(frames::read("f", &many, 1_000_000).is_err());
}
