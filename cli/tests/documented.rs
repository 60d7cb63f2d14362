// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the documents tell a newcomer to type, typed: on the default classes, on a machine with one CPU.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output},
};

use crate::daemon::{Daemon, Folder};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn consort(socket: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_consort"))
        .args(args)
        .env("CONSORT_SOCKET", socket)
        .output()
        .unwrap()
}

/// The documents, and what `--help` says of each command.
fn texts() -> Vec<(String, String)> {
    let mut files = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        files.extend(
            path.extension()
                .is_some_and(|end| end == "md")
                .then_some(path),
        );
    }
    let read = |path: &PathBuf| {
        (
            path.display().to_string(),
            fs::read_to_string(path).unwrap(),
        )
    };
    let mut texts: Vec<_> = files.iter().map(read).collect();
    for command in [
        &["--help"][..],
        &["set", "--help"],
        &["reserve", "--help"],
        &["lend", "--help"],
        &["class", "set", "--help"],
    ] {
        let output = consort(Path::new("/nonexistent"), command);
        let help = String::from_utf8(output.stdout).unwrap();
        texts.push((command.join(" "), help));
    }
    texts
}

/// The commands that are shown in a text: lines, and parts between backquotes, that change something a fake
/// scheduler can be asked for.
fn commands(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().flat_map(|line| line.split('`'));
    let candidates = lines.map(|line| line.trim().trim_start_matches("sudo "));
    candidates
        .filter_map(|line| line.strip_prefix("consort "))
        .map(|line| line.split(" #").next().unwrap_or(line))
        // In the list of commands, an explanation follows after two spaces.
        .map(|line| line.split("  ").next().unwrap_or(line))
        .map(|line| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<String>>()
        })
        .filter(|words| is_example(words))
        .collect()
}

/// Not a description with words in capitals or ellipses, and nothing that needs a kernel, a film or a cgroup.
fn is_example(words: &[String]) -> bool {
    let is_placeholder = |word: &String| {
        word.contains("...")
            || word
                .chars()
                .all(|c| c.is_ascii_uppercase() || "-|[]".contains(c))
    };
    let name = words.first().map_or("", String::as_str);
    [
        "set",
        "class",
        "reserve",
        "release",
        "lend",
        "recollect",
        "usage",
        "status",
    ]
    .contains(&name)
        && words.len() > 1
        && !words.iter().any(is_placeholder)
        && !words.iter().any(|word| word.contains('/') || word == "|")
}

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn examples_work_on_the_default_classes() {
    let mut tried = 0;
    for (name, text) in texts() {
        let daemon = Daemon::start();
        let sleeper = || Sleeper(Command::new("sleep").arg("1000").spawn().unwrap());
        let programs = [("4711", sleeper()), ("4712", sleeper())];
        // What lends in an example has reserved before.
        let own = programs[0].1 .0.id().to_string();
        let before = ["reserve", &own, "--class", "guaranteed", "--rate", "0.3"];
        assert!(consort(&daemon.config.socket, &before).status.success());
        for mut words in commands(&text) {
            for word in &mut words {
                if let Some((_, program)) = programs.iter().find(|(number, _)| number == word) {
                    *word = program.0.id().to_string();
                }
            }
            let args: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = consort(&daemon.config.socket, &args);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{name}: {words:?}: {error}");
            tried += 1;
        }
    }
    assert!(tried > 20, "only {tried} examples were found");
}

#[test]
fn a_file_of_classes_is_checked_before_anything_else() {
    let folder = Folder::new();
    let nowhere = folder.0.join("none.sock");
    let check = |path: &Path| consort(&nowhere, &["serve", "--check", path.to_str().unwrap()]);
    let output = check(&root().join("packaging/classes.toml.example"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let limits = "64 reservations, with rates of 0.5 in sum; root keeps 0 of";
    for part in ["is right", "guaranteed", "any rates", "flexible", limits] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let file = folder.0.join("classes.toml");
    let parts = "[limits]\nrate = \"100%\"\nkept_for_root = \"12.5%\"\n";
    fs::write(&file, parts).unwrap();
    let text = String::from_utf8(check(&file).stdout).unwrap();
    let cpus = text.split_once("Of ").unwrap().1.split(' ').next().unwrap();
    let expected = format!("rates of {cpus} in sum; root keeps 0.125 of");
    assert!(
        text.contains(&expected),
        "{expected} is missing in:\n{text}"
    );
    fs::write(&file, "[class.a]\ncapacity = \"120%\"\n").unwrap();
    let wrong = [&["serve", "--check"][..], &["serve", "--classes"]];
    for words in wrong {
        let output = consort(&nowhere, &[words, &[file.to_str().unwrap()]].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("at most"), "{error}");
    }
    let output = check(&folder.0.join("none.toml"));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("expected a file of classes"), "{error}");
}

#[test]
fn the_file_that_is_checked_is_the_one_that_serve_would_read() {
    let folder = Folder::new();
    let nowhere = folder.0.join("none.sock");
    let file = folder.0.join("classes.toml");
    fs::write(&file, "[class.ours]\ncapacity = \"10%\"\n").unwrap();
    let check = |args: &[&str]| consort(&nowhere, &[&["serve", "--check"], args].concat());
    let output = check(&["--classes", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("ours"), "{text}");
    // Where this machine has one, that is what is checked.
    if !Path::new("/etc/consort/classes.toml").exists() {
        let output = check(&[]);
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("is not there: defaults hold"), "{text}");
    }
}

#[test]
fn what_was_set_at_run_time_is_kept() {
    let daemon = Daemon::start();
    let socket = &daemon.config.socket;
    let done = |args: &[&str]| {
        let output = consort(socket, args);
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    done(&["set", "granularity", "7ms"]);
    done(&["class", "set", "batch", "5%", "--overbooking", "unlimited"]);
    let folder = Folder::new();
    let file = folder.0.join("etc/classes.toml");
    let file = file.to_str().unwrap();
    assert!(done(&["keep", file]).contains("the next `consort serve` starts with it"));
    let kept = fs::read_to_string(file).unwrap();
    assert_eq!(kept, done(&["keep", "-"]));
    assert!(
        kept.contains("granularity = \"7ms\"") && kept.contains("batch"),
        "{kept}"
    );
}

#[test]
fn shells_complete_the_command() {
    let folder = Folder::new();
    let completions = folder.0.join("completions");
    let written = ["completions", completions.to_str().unwrap()];
    assert!(consort(&folder.0, &written).status.success());
    for name in ["consort.bash", "_consort", "consort.fish"] {
        let text = fs::read_to_string(completions.join(name)).unwrap();
        assert!(text.contains("recollect"), "{name}");
    }
    let script = "source consort.bash; COMP_WORDS=(consort reco); COMP_CWORD=1; \
                  _consort consort reco consort; echo ${COMPREPLY[@]}";
    let completed = Command::new("bash")
        .args(["-c", script])
        .current_dir(&completions)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "recollect\n");
}

/// The code blocks of a language in a document.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    let parts = text.split(&start).skip(1);
    parts
        .filter_map(|part| Some(part.split_once("```")?.0.to_owned()))
        .collect()
}

/// What the chapter on groups tells to write and to type, in its order, in one folder.
#[test]
fn the_chapter_on_groups_can_be_followed() {
    let text = fs::read_to_string(root().join("docs/groups.md")).unwrap();
    let folder = Folder::new();
    let daemon = Daemon::start();
    let consort = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_consort"))
            .args(words)
            .env("CONSORT_SOCKET", &daemon.config.socket)
            .current_dir(&folder.0)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {error}");
    };
    for file in blocks(&text, "toml") {
        let name = file.lines().next().and_then(|line| line.strip_prefix("# "));
        let name = name.unwrap_or("unnamed.toml");
        fs::write(folder.0.join(name), &file).unwrap();
        consort(&["apply", "--check", name]);
    }
    fs::write(folder.0.join("frames.csv"), &blocks(&text, "csv")[0]).unwrap();
    let lines = blocks(&text, "sh");
    let commands = lines.iter().flat_map(|block| block.lines());
    let commands =
        commands.filter_map(|line| line.split('#').next()?.trim().strip_prefix("consort "));
    // What is deleted in one part is there in the next ones.
    let (mut tried, mut is_applied) = (0, false);
    for command in commands {
        let words: Vec<&str> = command
            .split_whitespace()
            .take_while(|word| *word != ">")
            .collect();
        if !is_applied && words[0] == "plan" {
            consort(&["apply", "film.toml"]);
            is_applied = true;
        }
        consort(&words);
        tried += 1;
    }
    assert!(tried >= 11, "only {tried} commands were found");
}

/// The man page's example, and the one in the crate's own documentation.
#[test]
fn examples_of_group_files_are_right() {
    let page = fs::read_to_string(root().join("docs/man/consort-groups.toml.5")).unwrap();
    let (_, example) = page.split_once(".SH EXAMPLE\n.nf\n").unwrap();
    let (example, _) = example.split_once("\n.fi").unwrap();
    let source = fs::read_to_string(root().join("groups/src/lib.rs")).unwrap();
    let comments: String = source
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned() + "\n")
        .collect();
    let folder = Folder::new();
    for text in [example.to_owned(), blocks(&comments, "toml").remove(0)] {
        let file = folder.0.join("example.toml");
        fs::write(&file, &text).unwrap();
        let nowhere = folder.0.join("none.sock");
        let output = consort(&nowhere, &["apply", "--check", file.to_str().unwrap()]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}\n{text}");
    }
}

/// The chapter's function, checked, asked and run in the simulator, as it says.
#[test]
fn the_chapter_on_functions_can_be_followed() {
    let text = fs::read_to_string(root().join("docs/decision-functions.md")).unwrap();
    let folder = Folder::new();
    let write = |name: &str, language: &str| {
        let block = blocks(&text, language).into_iter().next().unwrap();
        fs::write(folder.0.join(name), block).unwrap();
    };
    write("first.c", "c");
    write("mine.json", "json");
    // Names of programs on this machine stand in no document.
    let command = Path::new(env!("CARGO_BIN_EXE_consort")).parent().unwrap();
    let path = format!("{}:{}", command.display(), std::env::var("PATH").unwrap());
    let shell = |script: &str| {
        let output = Command::new("sh")
            .args(["-ec", script])
            .current_dir(&folder.0)
            .env("PATH", &path)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}: {error}");
        String::from_utf8(output.stdout).unwrap()
    };
    let scripts = blocks(&text, "sh");
    let said = shell(&scripts[0]);
    assert!(said.contains("keys [7,3]: the order is [1,0]"), "{said}");
    assert!(text.contains("keys [7,3]: the order is [1,0]"));
    let said = shell(&format!("{} --json", scripts[1].trim()));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let tasks = said["tasks"].as_array().unwrap();
    let share = |name: &str| {
        let task = tasks.iter().find(|task| task["name"] == name).unwrap();
        task["share_percent"].as_f64().unwrap()
    };
    // Nearly all that the group has, which is half the CPU.
    let (one, two) = (share("one"), share("two"));
    assert!(two > 20.0 * one, "{one} and {two}");
    assert!((one + two - 50.0).abs() < 1.0, "{one} and {two}");
}
