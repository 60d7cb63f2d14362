// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run's page with tables and plots: one HTML file, nothing fetched.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    distribution::ms,
    palette::{style, text_class, LOOKS},
    recorder::{Recorder, TaskRecord},
    summary::{Row, Summary},
    svg::{escape, Axis, Plot},
    table::cells,
};

const STYLE: &str = "
:root { --fg: #222; --bg: #fff; --grid: #ddd; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --fg: #ddd; --bg: #1b1b1b; --grid: #444; --bad: #ff7b6b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg); max-width: 1000px;
  margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .2em .6em; text-align: right; border-bottom: 1px solid var(--grid); }
th:first-child, td:first-child { text-align: left; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 1em; }
figure { margin: 0; } svg { width: 100%; } svg text { font-size: 11px; fill: var(--fg); }
.grid { stroke: var(--grid); } polyline { fill: none; stroke-width: 1.6; stroke-opacity: .8; }
.key span { margin-right: 1.5em; } .bad { color: var(--bad); font-weight: bold; }
";

/// Rows and lines of a plot: as many as can be told apart; and rows of the table of all tasks.
const BARS_MAX: usize = LOOKS;
const TABLE_ROWS_MAX: usize = 1_000;
/// Points of a line: more could not be told apart.
const POINTS_MAX: usize = 400;
/// How much of the window the picture of who ran when shows.
const TIMELINE_MS: f64 = 100.0;

/// A run, for a page.
#[derive(Debug, Clone, Copy)]
pub struct Run<'r> {
    pub summary: &'r Summary,
    pub recorder: &'r Recorder,
    /// Where its trace is, from the page.
    pub trace: &'r str,
}

/// The page of one run, or of several of the same scenario.
pub fn page(scenario: &str, runs: &[Run<'_>]) -> String {
    let title = escape(scenario);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}: simulated</title>\n\
         <style>{STYLE}{}</style>\n<h1>{title}</h1>\n",
        style()
    );
    // Writing into a String cannot fail.
    for run in runs {
        let _ = write!(page, "{}", overview(run));
    }
    if let Some(plot) = tardiness_plot(runs) {
        let _ = write!(
            page,
            "<h2>Tardiness</h2>\n<p>From an event's due time to when it was served. Further left is better.</p>\n\
             {}<div class=\"plots\"><figure>{plot}</figure></div>\n",
            key(runs)
        );
    }
    for run in runs {
        let _ = write!(page, "{}", plots(run));
    }
    for run in runs {
        let _ = write!(page, "{}", details(run.summary));
    }
    page.push_str("</html>\n");
    page
}

fn overview(run: &Run<'_>) -> String {
    let summary = run.summary;
    let mut text = format!(
        "<h2>{}</h2>\n<p>{:.3} s, {} CPUs, {:.2} % idle, {:.0} decisions/s, {} faults injected.</p>\n",
        escape(&summary.title),
        summary.window_s,
        summary.cpus,
        summary.idle_percent,
        summary.decisions_per_s,
        summary.faults,
    );
    let _ = writeln!(
        text,
        "<p>Who ran when: <a href=\"{0}\">{0}</a>, to be opened at ui.perfetto.dev.</p>",
        escape(run.trace)
    );
    if let Some(violation) = &summary.violation {
        let _ = writeln!(
            text,
            "<p class=\"bad\">{} at {:.9} s: {}</p>",
            escape(violation.rule),
            violation.at_ns as f64 / 1e9,
            escape(&violation.detail)
        );
        let state = escape(&violation.state.join("\n"));
        let _ = writeln!(
            text,
            "<details><summary>What was known then</summary><pre>{state}</pre></details>"
        );
    }
    for limit in &summary.limits {
        let _ = writeln!(text, "<p>Note: {}.</p>", escape(limit));
    }
    for refusal in &summary.refusals {
        let _ = writeln!(text, "<p class=\"bad\">refused: {}</p>", escape(refusal));
    }
    let rows: Vec<&Row> = summary.groups.iter().chain([&summary.total]).collect();
    text + &html_table(&rows)
}

fn html_table(rows: &[&Row]) -> String {
    let mut text = String::from("<table>\n");
    for (index, row) in cells(rows).iter().enumerate() {
        let tag = if index < 2 { "th" } else { "td" };
        let line: String = row
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
            .collect();
        let _ = writeln!(text, "<tr>{line}</tr>");
    }
    text + "</table>\n"
}

fn details(summary: &Summary) -> String {
    let shown = &summary.tasks[..summary.tasks.len().min(TABLE_ROWS_MAX)];
    let rows: Vec<&Row> = shown.iter().collect();
    let mut text = format!(
        "<details><summary>{}: {} of {} tasks, and counters</summary>\n{}",
        escape(&summary.title),
        rows.len(),
        summary.tasks.len(),
        html_table(&rows)
    );
    let counters = summary.counters.iter();
    let lines: String = counters
        .map(|(name, value)| format!("<tr><td>{name}</td><td>{value}</td></tr>\n"))
        .collect();
    let _ = write!(text, "<table>\n{lines}</table></details>\n");
    text
}

fn key(runs: &[Run<'_>]) -> String {
    let entry = |(index, run): (usize, &Run<'_>)| {
        format!(
            "<span class=\"{}\">&mdash; {}</span>",
            text_class(index),
            escape(&run.summary.title)
        )
    };
    let entries: String = runs.iter().enumerate().map(entry).collect();
    format!("<p class=\"key\">{entries}</p>\n")
}

/// Part of the due events that were served within a time; none if nobody had one.
fn tardiness_plot(runs: &[Run<'_>]) -> Option<String> {
    const FLOOR_MS: f64 = 0.01;
    let sorted: Vec<Vec<u64>> = runs
        .iter()
        .map(|run| all_tardiness_ns(run.recorder))
        .collect();
    let latest_ns = sorted.iter().filter_map(|late_ns| late_ns.last()).max()?;
    let x = Axis::logarithmic("tardiness, ms", FLOOR_MS, ms(*latest_ns).max(10.0));
    let mut plot = Plot::new(x, Axis::linear("% of due events", 0.0, 100.0));
    for (look, late_ns) in sorted.iter().enumerate() {
        let step = late_ns.len().div_ceil(POINTS_MAX).max(1);
        let point = |index: usize| {
            (
                ms(late_ns[index]),
                100.0 * (index + 1) as f64 / late_ns.len() as f64,
            )
        };
        let last = late_ns.len().checked_sub(1);
        let points: Vec<_> = (0..late_ns.len())
            .step_by(step)
            .chain(last)
            .map(point)
            .collect();
        plot.line(&points, look);
    }
    Some(plot.finish("Part of the due events that were served within a time"))
}

fn all_tardiness_ns(recorder: &Recorder) -> Vec<u64> {
    let tasks = recorder.tasks().iter();
    let mut all: Vec<u64> = tasks
        .flat_map(|task| task.tardiness_ns.iter().copied())
        .collect();
    all.sort_unstable();
    all
}

fn plots(run: &Run<'_>) -> String {
    let figure = |caption: &str, plot: String| {
        format!("<figure><figcaption>{caption}</figcaption>{plot}</figure>\n")
    };
    format!(
        "<h2>{}: who got the CPU</h2>\n<div class=\"plots\">\n{}{}{}</div>\n",
        escape(&run.summary.title),
        figure("Share of a CPU", share_plot(run.summary)),
        figure(
            &match run.recorder.tasks().len() {
                0..=BARS_MAX => "Share over time, each second".to_owned(),
                tasks =>
                    format!("Share over time, each second; the first {BARS_MAX} of {tasks} tasks"),
            },
            share_over_time_plot(run)
        ),
        figure(
            "Who ran when, at the window's start",
            timeline_plot(run.recorder)
        ),
    )
}

fn share_plot(summary: &Summary) -> String {
    let rows = match summary.tasks.len() {
        0..=BARS_MAX => &summary.tasks,
        _ => &summary.groups,
    };
    let rows = &rows[..rows.len().min(BARS_MAX)];
    let most = rows.iter().map(|row| row.share_percent).fold(1.0, f64::max);
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let mut plot = Plot::with_rows(Axis::linear("% of a CPU", 0.0, most), &names);
    for (index, row) in rows.iter().enumerate() {
        let title = format!("{}: {:.2} %", row.name, row.share_percent);
        plot.bar((index, rows.len()), 0.0, row.share_percent, index, &title);
    }
    plot.finish("Share of a CPU of each task")
}

fn share_over_time_plot(run: &Run<'_>) -> String {
    // Less than this at the end says nothing of a second.
    const PART_MIN: f64 = 0.1;
    let seconds = run.recorder.window_ns() as f64 / 1e9;
    let percents = |task: &TaskRecord| -> Vec<(f64, f64)> {
        let part = |second: usize| (seconds - second as f64).min(1.0);
        let each = task.run_each_s_ns.iter().enumerate();
        let told = each.filter(|(second, _)| *second == 0 || part(*second) >= PART_MIN);
        told.map(|(second, ns)| {
            let part = part(second);
            (
                second as f64 + part / 2.0,
                *ns as f64 / 1e7 / part.max(1e-9),
            )
        })
        .collect()
    };
    let tasks = run.recorder.tasks().iter().take(BARS_MAX);
    let lines: Vec<_> = tasks.map(|task| (&task.name, percents(task))).collect();
    let all = lines.iter().flat_map(|(_, points)| points);
    let most = all.map(|(_, percent)| *percent).fold(1.0, f64::max);
    let mut plot = Plot::new(
        Axis::linear("second", 0.0, seconds),
        Axis::linear("% of a CPU", 0.0, most),
    );
    for (look, (_, points)) in lines.iter().enumerate() {
        plot.line(points, look);
    }
    let names = lines.iter().map(|(name, _)| name.as_str());
    plot.legend(&names.zip(0..).collect::<Vec<_>>());
    plot.finish("Share of a CPU of each task over time")
}

fn timeline_plot(recorder: &Recorder) -> String {
    let names: Vec<String> = (0..recorder.cpus().min(BARS_MAX))
        .map(|cpu| format!("CPU {cpu}"))
        .collect();
    let start_ns = recorder.window_start_ns();
    let shown_ms = TIMELINE_MS.min(ms(recorder.window_ns()));
    let mut plot = Plot::with_rows(Axis::linear("ms", 0.0, shown_ms), &names);
    let mut shown = BTreeMap::new();
    for stretch in recorder.stretches() {
        let (from_ms, to_ms) = (ms(stretch.from_ns - start_ns), ms(stretch.to_ns - start_ns));
        let row = stretch.cpu.map_or(usize::MAX, |cpu| cpu as usize);
        if from_ms < shown_ms && row < names.len() {
            let name = recorder
                .tasks()
                .get(stretch.task as usize)
                .map_or("", |task| task.name.as_str());
            let title = format!("{name}: {from_ms:.3} to {to_ms:.3} ms");
            shown.insert(stretch.task as usize, name);
            plot.bar(
                (row, names.len()),
                from_ms,
                to_ms,
                stretch.task as usize,
                &title,
            );
        }
    }
    // Of more than can be told apart, none is named: pointing at a bar does.
    if shown.len() <= BARS_MAX {
        let names = shown.into_iter().map(|(look, name)| (name, look));
        plot.legend_of_bars(&names.collect::<Vec<_>>());
    }
    plot.finish("Which task ran on which CPU when")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::recorder::tests::{setup, two_tasks, MS},
        report::summary::tests::summary,
        trace::Observer,
    };

    #[test]
    fn the_page_is_whole_and_fetches_nothing() {
        let mut recorder = Recorder::new(&setup(), 0);
        for event in two_tasks() {
            recorder.event(&event);
        }
        recorder.finish(40 * MS);
        let summary = summary();
        let run = Run {
            summary: &summary,
            recorder: &recorder,
            trace: "trace.json",
        };
        let text = page("<two>", &[run, run]);
        assert!(text.contains("<h1>&lt;two&gt;</h1>") && text.ends_with("</html>\n"));
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
        assert_eq!(
            text.matches("<svg").count(),
            7,
            "one of both, three of each"
        );
        for outside in ["http://", "https://", "src=", "@import"] {
            assert!(!text.contains(outside), "{outside}");
        }
        let links = text.split("href=").skip(1);
        assert!(links.clone().count() > 0);
        for link in links {
            assert!(link.starts_with("\"trace.json\""), "{link:.20}");
        }
        // The bars of the timeline say who ran when.
        assert!(text.contains("b: 10.000 to 12.000 ms"));
    }

    #[test]
    fn without_due_events_there_is_no_plot_of_them() {
        let recorder = Recorder::new(&setup(), 0);
        let mut summary = summary();
        summary.tasks.clear();
        let run = Run {
            summary: &summary,
            recorder: &recorder,
            trace: "trace.json",
        };
        assert!(!page("x", &[run]).contains("<h2>Tardiness"));
    }
}
