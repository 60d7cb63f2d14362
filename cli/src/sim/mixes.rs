// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim mixes`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use consort_sim::{
    mixes::{differences, generate, judge, Mix, Relation, Worst},
    scenario::{load, Scenario},
};
use serde_json::{json, Value};

use super::{
    args::MixesArgs,
    failure::SimFailure,
    files::{make_folder, print, write_text},
    userlevel,
};

pub fn mixes(args: &MixesArgs) -> Result<(), SimFailure> {
    if let Some(relation) = args.changed {
        return changed(args, relation);
    }
    let mut all = Vec::new();
    each(args, |mix| one(mix, args, &mut all))?;
    let held = all.iter().filter(|mix| mix.broken.is_empty()).count();
    match args.json {
        true => print(&(summary(&all, held).to_string() + "\n"))?,
        false => print(&format!("{held} of {} mixes hold\n", all.len()))?,
    }
    match held == all.len() {
        true => Ok(()),
        false => Err(SimFailure::Found(format!(
            "{} of {} mixes do not hold: see above",
            all.len() - held,
            all.len()
        ))),
    }
}

/// The mixes of the command line, the generated ones last: of these what is not fine is saved, where that was asked for.
fn each(
    args: &MixesArgs,
    mut is_fine: impl FnMut(&Scenario) -> Result<bool, SimFailure>,
) -> Result<(), SimFailure> {
    for path in files(&args.files)? {
        userlevel::refuse(&path)?;
        is_fine(&load(&path, args.seed)?)?;
    }
    let first = args.seed.unwrap_or(0);
    for seed in first..first.saturating_add(args.generated) {
        let mix = generate(seed);
        if let (false, Some(folder)) = (is_fine(&mix)?, &args.save) {
            save(&mix, folder)?;
        }
    }
    Ok(())
}

/// Each mix against itself with a change.
fn changed(args: &MixesArgs, relation: Relation) -> Result<(), SimFailure> {
    let (mut compared, mut unlike) = (0, 0);
    each(args, |mix| {
        let Some(found) = differences(mix, relation)? else {
            print(&format!("{:16} cannot be changed so\n", mix.name))?;
            return Ok(true);
        };
        compared += 1;
        unlike += usize::from(!found.is_empty());
        print(&changed_line(&mix.name, &found, args.all))?;
        Ok(found.is_empty())
    })?;
    let alike = compared - unlike;
    print(&format!("{alike} of {compared} mixes are as they were\n"))?;
    match unlike {
        0 => Ok(()),
        _ => Err(SimFailure::Found(format!(
            "{unlike} of {compared} mixes are not what they were: see above"
        ))),
    }
}

fn changed_line(name: &str, found: &[String], all: bool) -> String {
    match found {
        [] => format!("{name:16} is as it was\n"),
        found => format!("{name:16} DIFFERS{}\n", listed(found, all)),
    }
}

/// Judges a mix and says so; whether it holds.
fn one(mix: &Scenario, args: &MixesArgs, all: &mut Vec<Mix>) -> Result<bool, SimFailure> {
    let mix = judge(mix)?;
    if !args.json {
        print(&line(&mix, args.all))?;
    }
    let holds = mix.broken.is_empty();
    all.push(mix);
    Ok(holds)
}

/// Folders stand for the scenarios in them.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, SimFailure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let reading = |source| SimFailure::Read {
            path: path.clone(),
            source,
        };
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(reading)? {
            inside.push(entry.map_err(reading)?.path());
        }
        inside.retain(|file| file.extension().is_some_and(|it| it == "json"));
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

fn number(of: Option<&Worst>) -> String {
    match of {
        Some(worst) => format!("{:.3} ({})", worst.value, worst.task),
        None => "-".to_owned(),
    }
}

/// The first of some findings; or all, in lines of their own.
fn listed(found: &[String], all: bool) -> String {
    const SHOWN: usize = 2;
    if all {
        return found.iter().map(|it| format!("\n    {it}")).collect();
    }
    let shown = &found[..found.len().min(SHOWN)];
    let more = match found.len() - shown.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    shown.iter().map(|it| format!("; {it}")).collect::<String>() + &more
}

/// A mix in a line: its numbers, and what does not hold.
fn line(mix: &Mix, all: bool) -> String {
    let verdict = match mix.broken.is_empty() {
        true => "holds",
        false => "FAILS",
    };
    let join = mix.join.as_ref();
    let joined = join.map_or(String::new(), |join| {
        format!(
            ", joined: share {}, lateness {}",
            number(join.share_ratio_min.as_ref()),
            number(join.tardiness_p99_ratio_max.as_ref())
        )
    });
    let lag = mix.fluid_lag.as_ref();
    let text = format!(
        "{:16} {verdict}  share {}, wait {}{joined}, lag {}",
        mix.name,
        number(mix.share_ratio_min.as_ref()),
        number(Some(&mix.wait_ratio_max)),
        lag.map_or("-".to_owned(), |lag| format!("{:.1} slices", lag.slices)),
    );
    text + &listed(&mix.broken, all) + "\n"
}

/// All mixes, and the worst of each number.
fn summary(all: &[Mix], held: usize) -> Value {
    let least = |of: &dyn Fn(&Mix) -> Option<f64>| all.iter().filter_map(of).reduce(f64::min);
    let most = |of: &dyn Fn(&Mix) -> Option<f64>| all.iter().filter_map(of).reduce(f64::max);
    let value = |worst: &Option<Worst>| worst.as_ref().map(|it| it.value);
    json!({
        "held": held,
        "mixes": all,
        "worst": {
            "share_ratio_min": least(&|mix| value(&mix.share_ratio_min)),
            "wait_ratio_max": most(&|mix| Some(mix.wait_ratio_max.value)),
            "wait_max_ms": most(&|mix| Some(mix.wait_max_ms.value)),
            "join.share_ratio_min": least(&|mix| value(&mix.join.as_ref()?.share_ratio_min)),
            "join.tardiness_p99_ratio_max":
                most(&|mix| value(&mix.join.as_ref()?.tardiness_p99_ratio_max)),
            "fluid_lag_max_slices": most(&|mix| Some(mix.fluid_lag.as_ref()?.slices)),
        },
    })
}

/// Writes a generated mix down, for `consort sim run` and `consort sim mixes`.
fn save(mix: &Scenario, folder: &Path) -> Result<(), SimFailure> {
    make_folder(folder)?;
    let text = serde_json::to_string_pretty(&mix.setup);
    let text = text.map_err(|error| SimFailure::Output(error.into()))?;
    write_text(&folder.join(format!("{}.json", mix.name)), &(text + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix() -> Mix {
        let worst = |value| Worst {
            value,
            task: "editor".into(),
        };
        Mix {
            name: "desktop".into(),
            share_ratio_min: Some(worst(0.5)),
            wait_ratio_max: worst(3.0),
            wait_max_ms: worst(60.0),
            join: None,
            fluid_lag: None,
            broken: vec!["a".into(), "b".into(), "c".into()],
        }
    }

    #[test]
    fn a_mix_is_a_line() {
        assert_eq!(
            line(&mix(), false),
            "desktop          FAILS  share 0.500 (editor), wait 3.000 (editor), lag -; a; b; and 1 more\n"
        );
        assert!(line(&mix(), true).ends_with("lag -\n    a\n    b\n    c\n"));
        let holds = Mix {
            broken: Vec::new(),
            share_ratio_min: None,
            ..mix()
        };
        assert_eq!(
            line(&holds, false),
            "desktop          holds  share -, wait 3.000 (editor), lag -\n"
        );
    }

    #[test]
    fn what_a_change_made_is_a_line() {
        let found = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!(
            changed_line("desktop", &found, false),
            "desktop          DIFFERS; a; b; and 1 more\n"
        );
        assert_eq!(
            changed_line("desktop", &found[..1], true),
            "desktop          DIFFERS\n    a\n"
        );
        assert_eq!(
            changed_line("desktop", &[], true),
            "desktop          is as it was\n"
        );
    }

    #[test]
    fn the_summary_has_the_worst_of_each_number() {
        let mut other = mix();
        other.share_ratio_min = None;
        other.wait_ratio_max.value = 7.0;
        let value = summary(&[mix(), other], 0);
        assert_eq!(value["worst"]["share_ratio_min"], 0.5);
        assert_eq!(value["worst"]["wait_ratio_max"], 7.0);
        assert_eq!(value["worst"]["join.share_ratio_min"], Value::Null);
    }
}
