// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots as SVG text. What lines and bars look like comes from the page's style (palette.rs).

use std::fmt::Write;

use super::palette::{fill_classes, line_classes};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 52.0;
/// Room for the names of rows.
const LEFT_OF_ROWS: f64 = 100.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;
/// The legend below: entries beside each other, the height of a row, and characters of a name.
const LEGEND_COLUMNS: usize = 4;
const LEGEND_ROW: f64 = 15.0;
const LEGEND_NAME_MAX: usize = 14;

/// Maps values to pixels, linearly or logarithmically.
#[derive(Debug, Clone)]
pub struct Axis {
    label: String,
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Axis {
    /// From `low` to `high`, widened where that would be nothing.
    pub fn linear(label: &str, low: f64, high: f64) -> Self {
        Self {
            label: label.to_owned(),
            low,
            high: if high > low { high } else { low + 1.0 },
            logarithmic: false,
        }
    }

    /// From `low`, which is above 0, to `high`, widened where that would be nothing.
    pub fn logarithmic(label: &str, low: f64, high: f64) -> Self {
        Self {
            label: label.to_owned(),
            low,
            high: if high > low { high } else { low * 10.0 },
            logarithmic: true,
        }
    }

    /// Where `value` lies, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.part(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn ticks(&self) -> Vec<f64> {
        const TICKS_MAX: f64 = 6.0;
        if self.logarithmic {
            let (first, last) = (self.low.log10().ceil(), self.high.log10().floor());
            return (first as i32..=last as i32)
                .map(|power| 10f64.powi(power))
                .collect();
        }
        let span = self.high - self.low;
        let mut step = 10f64.powf((span / TICKS_MAX).log10().floor());
        for factor in [2.0, 2.5, 2.0] {
            if span / step > TICKS_MAX {
                step *= factor;
            }
        }
        let first = (self.low / step).ceil();
        let count = ((self.high / step + 1e-9).floor() - first) as usize;
        (0..=count)
            .map(|index| (first + index as f64) * step)
            .collect()
    }
}

/// A plot that is being drawn.
#[derive(Debug)]
pub struct Plot {
    x: Axis,
    y: Axis,
    left: f64,
    height: f64,
    body: String,
}

impl Plot {
    /// Draws the grid.
    pub fn new(x: Axis, y: Axis) -> Self {
        let mut plot = Self {
            x,
            y,
            left: LEFT,
            height: HEIGHT,
            body: String::new(),
        };
        plot.draw_grid();
        plot
    }

    /// As `new`, with a name at each whole number instead of a grid across.
    pub fn with_rows(x: Axis, names: &[String]) -> Self {
        // The first row is the uppermost.
        let y = Axis::linear("", -0.5, names.len() as f64 - 0.5);
        let mut plot = Self {
            x,
            y,
            left: LEFT_OF_ROWS,
            height: HEIGHT,
            body: String::new(),
        };
        plot.draw_columns();
        for (row, name) in names.iter().enumerate() {
            let at = plot.row_middle(row, names.len()) + 4.0;
            let name = escape(name);
            plot.add(format_args!(
                r#"<text x="{:.1}" y="{at:.1}" text-anchor="end">{name}</text>"#,
                LEFT_OF_ROWS - 5.0
            ));
        }
        plot
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.x.part(value) * (WIDTH - self.left - RIGHT)
    }

    // Writing into a String cannot fail.
    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(text);
    }

    fn draw_grid(&mut self) {
        self.draw_columns();
        for tick in self.y.ticks() {
            let (at, text) = (self.y.y(tick), number(tick));
            let (from, to) = (self.left, WIDTH - RIGHT);
            self.add(format_args!(
                r#"<line class="grid" x1="{from}" y1="{at:.1}" x2="{to}" y2="{at:.1}"/>"#
            ));
            self.add(format_args!(
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{text}</text>"#,
                LEFT - 5.0,
                at + 4.0
            ));
        }
        let (middle, label) = ((TOP + HEIGHT - BOTTOM) / 2.0, escape(&self.y.label));
        self.add(format_args!(
            r#"<text transform="translate(11 {middle:.1}) rotate(-90)" text-anchor="middle">{label}</text>"#
        ));
    }

    fn draw_columns(&mut self) {
        for tick in self.x.ticks() {
            let (at, text) = (self.x(tick), number(tick));
            let (from, to) = (TOP, HEIGHT - BOTTOM);
            self.add(format_args!(
                r#"<line class="grid" x1="{at:.1}" y1="{from}" x2="{at:.1}" y2="{to}"/>"#
            ));
            self.add(format_args!(
                r#"<text x="{at:.1}" y="{:.1}" text-anchor="middle">{text}</text>"#,
                to + 14.0
            ));
        }
        let (middle, label) = ((self.left + WIDTH - RIGHT) / 2.0, escape(&self.x.label));
        self.add(format_args!(
            r#"<text x="{middle:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#,
            HEIGHT - 4.0
        ));
    }

    /// A line through `points` that looks like others of this number, of which the palette has so many.
    pub fn line(&mut self, points: &[(f64, f64)], look: usize) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{:.1},{:.1} ", self.x(*x), self.y.y(*y));
        }
        self.add(format_args!(
            r#"<polyline class="{}" points="{}"/>"#,
            line_classes(look),
            path.trim_end()
        ));
    }

    /// Names lines below the plot, by what they look like.
    pub fn legend(&mut self, names: &[(&str, usize)]) {
        self.name_below(names, |look, (left, right), y| {
            let classes = line_classes(look);
            format!(r#"<polyline class="{classes}" points="{left:.1},{y:.1} {right:.1},{y:.1}"/>"#)
        });
    }

    /// Names bars, likewise.
    pub fn legend_of_bars(&mut self, names: &[(&str, usize)]) {
        const HEIGHT: f64 = 8.0;
        self.name_below(names, |look, (left, right), y| {
            let (classes, top, width) = (fill_classes(look), y - HEIGHT / 2.0, right - left);
            format!(
                r#"<rect class="{classes}" x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{HEIGHT}"/>"#
            )
        });
    }

    fn name_below(
        &mut self,
        names: &[(&str, usize)],
        swatch: impl Fn(usize, (f64, f64), f64) -> String,
    ) {
        const SWATCH: f64 = 22.0;
        let column = (WIDTH - RIGHT - self.left) / LEGEND_COLUMNS as f64;
        for (index, (name, look)) in names.iter().enumerate() {
            let left = self.left + (index % LEGEND_COLUMNS) as f64 * column;
            let y = self.height + (index / LEGEND_COLUMNS) as f64 * LEGEND_ROW + LEGEND_ROW / 2.0;
            let (whole, shown) = (escape(name), escape(&shortened(name)));
            self.body.push_str(&swatch(*look, (left, left + SWATCH), y));
            self.add(format_args!(
                r#"<text x="{:.1}" y="{:.1}"><title>{whole}</title>{shown}</text>"#,
                left + SWATCH + 4.0,
                y + 4.0
            ));
        }
        self.height += names.len().div_ceil(LEGEND_COLUMNS) as f64 * LEGEND_ROW;
    }

    fn row_middle(&self, row: usize, rows: usize) -> f64 {
        self.y.y((rows - 1 - row) as f64)
    }

    /// A bar in `row` of `rows`; `title` is shown to who points at it.
    pub fn bar(
        &mut self,
        (row, rows): (usize, usize),
        from: f64,
        to: f64,
        look: usize,
        title: &str,
    ) {
        let (left, right) = (self.x(from), self.x(to));
        let height = (HEIGHT - TOP - BOTTOM) / rows as f64 * 0.7;
        let top = self.row_middle(row, rows) - height / 2.0;
        let (width, title) = ((right - left).max(0.2), escape(title));
        self.add(format_args!(
            r#"<rect class="{}" x="{left:.2}" y="{top:.1}" width="{width:.2}" height="{height:.1}"><title>{title}</title></rect>"#,
            fill_classes(look)
        ));
    }

    /// The picture; `title` is what a reader who cannot see it hears.
    pub fn finish(self, title: &str) -> String {
        let title = escape(title);
        let height = self.height;
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}"><title>{title}</title>{}</svg>"#,
            self.body
        )
    }
}

/// A name for which there is little room.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(LEGEND_NAME_MAX) {
        // Numbers of instances are at the end.
        Some(_) => {
            let end: Vec<char> = name.chars().rev().take(LEGEND_NAME_MAX - 1).collect();
            format!("…{}", end.into_iter().rev().collect::<String>())
        }
        None => name.to_owned(),
    }
}

/// A tick's number: as few digits as it has.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" | "" => "0".into(),
        text => text.into(),
    }
}

/// Text inside HTML, whoever wrote it.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(
            Axis::linear("", 0.0, 20.0).ticks(),
            [0.0, 5.0, 10.0, 15.0, 20.0]
        );
        assert_eq!(Axis::linear("", 0.0, 1.0).ticks().len(), 6);
        assert_eq!(
            Axis::linear("", 3.0, 3.0).ticks().len(),
            6,
            "something of nothing"
        );
        let powers = Axis::logarithmic("", 0.02, 30.0).ticks();
        assert_eq!(powers.len(), 3);
        for high in [1e-3, 0.7, 9.0, 24.0, 101.0, 12_345.0] {
            let ticks = Axis::linear("", 0.0, high).ticks();
            assert!((3..=7).contains(&ticks.len()), "{high}: {ticks:?}");
        }
    }

    #[test]
    fn a_line_keeps_inside_the_axes() {
        let mut plot = Plot::new(Axis::linear("x", 0.0, 1.0), Axis::linear("y", 0.0, 1.0));
        plot.line(&[(0.0, 0.0), (1.0, 1.0), (7.0, 7.0)], 1);
        let picture = plot.finish("t");
        assert!(
            picture.contains(r#"points="52.0,204.0 448.0,12.0 448.0,12.0""#),
            "{picture}"
        );
    }

    #[test]
    fn the_legend_lies_below_and_has_each_name() {
        let mut plot = Plot::new(Axis::linear("x", 0.0, 1.0), Axis::linear("y", 0.0, 1.0));
        let names = ["a", "b", "c", "d", "<e>"];
        let entries: Vec<(&str, usize)> = names.iter().copied().zip(7..).collect();
        plot.legend(&entries);
        let picture = plot.finish("t");
        assert!(
            picture.starts_with(r#"<svg viewBox="0 0 460 270""#),
            "{picture}"
        );
        assert_eq!(picture.matches("<polyline").count(), 5);
        assert!(picture.contains(r#"class="c0 d1""#) && picture.contains("&lt;e&gt;</text>"));
        assert_eq!(shortened("a-rather-long-name-12"), "…-long-name-12");

        let mut plot = Plot::with_rows(Axis::linear("x", 0.0, 1.0), &["CPU 0".into()]);
        plot.bar((0, 1), 0.0, 1.0, 9, "b");
        plot.legend_of_bars(&[("b", 9)]);
        let picture = plot.finish("t");
        assert_eq!(picture.matches(r#"<rect class="f1 p1""#).count(), 2);
    }

    #[test]
    fn names_cannot_break_out() {
        let mut plot = Plot::with_rows(Axis::linear("x", 0.0, 1.0), &["<b>&".into()]);
        plot.bar((0, 1), 0.0, 0.5, 0, "\"<script>");
        let picture = plot.finish("t");
        assert!(picture.contains("&lt;b&gt;&amp;") && picture.contains("&quot;&lt;script&gt;"));
        assert!(!picture.contains("<script>"));
    }

    #[test]
    fn rows_go_from_top_to_bottom() {
        let plot = Plot::with_rows(Axis::linear("", 0.0, 1.0), &["a".into(), "b".into()]);
        assert!(plot.row_middle(0, 2) < plot.row_middle(1, 2));
    }

    #[test]
    fn numbers_have_no_idle_digits() {
        assert_eq!((number(0.5).as_str(), number(20.0).as_str()), ("0.5", "20"));
        assert_eq!((number(0.0).as_str(), number(-0.0).as_str()), ("0", "0"));
    }
}
