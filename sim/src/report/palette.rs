// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lines and bars look like: colours that colour-blind readers tell apart, then dashes or paler ones.
//!
//! Source   Okabe, Ito, "Color Universal Design", 2008; without their yellow, which is lost on white, and with grey.

use std::fmt::Write;

/// On light ground, and on dark.
const COLOURS: [(&str, &str); 8] = [
    ("#0072b2", "#4a9bdc"),
    ("#d55e00", "#ef7d32"),
    ("#009e73", "#2bc49a"),
    ("#cc79a7", "#e29cc4"),
    ("#e69f00", "#f2b93b"),
    ("#56b4e9", "#a5dcff"),
    ("#222222", "#eeeeee"),
    ("#8a8a8a", "#8f8f8f"),
];
/// Solid, dashed, dotted: lengths of line and gap.
const DASHES: [&str; 3] = ["none", "7 3", "1.5 2.5"];

/// What is filled in the colours of the lines that are solid, dashed, dotted: how much of them.
const FILLS: [&str; DASHES.len()] = ["1", ".6", ".3"];

/// So many lines can be told apart, and so many bars.
pub const LOOKS: usize = COLOURS.len() * DASHES.len();

/// Classes of the line of this number: first all colours solid, then dashed.
pub fn line_classes(number: usize) -> String {
    let dash = number / COLOURS.len() % DASHES.len();
    format!("c{} d{dash}", number % COLOURS.len())
}

/// Classes of what is filled with this number: first all colours full, then paler.
pub fn fill_classes(number: usize) -> String {
    let round = number / COLOURS.len() % FILLS.len();
    format!("f{} p{round}", number % COLOURS.len())
}

/// The class of text.
pub fn text_class(number: usize) -> String {
    format!("k{}", number % COLOURS.len())
}

/// The part of a page's style that these classes need.
pub fn style() -> String {
    let variables = |pick: fn(&(&'static str, &'static str)) -> &'static str| -> String {
        let each = COLOURS.iter().enumerate();
        each.map(|(n, colour)| format!("--c{n}:{};", pick(colour)))
            .collect()
    };
    let mut style = format!(
        ":root{{{}}}\n@media (prefers-color-scheme: dark){{:root{{{}}}}}\n",
        variables(|(light, _)| light),
        variables(|(_, dark)| dark)
    );
    // Writing into a String cannot fail.
    for n in 0..COLOURS.len() {
        let _ = writeln!(
            style,
            ".c{n}{{stroke:var(--c{n})}}.f{n}{{fill:var(--c{n})}}.k{n}{{color:var(--c{n})}}"
        );
    }
    for (n, dashes) in DASHES.iter().enumerate() {
        let _ = writeln!(style, ".d{n}{{stroke-dasharray:{dashes}}}");
    }
    for (n, part) in FILLS.iter().enumerate() {
        let _ = writeln!(style, ".p{n}{{fill-opacity:{part}}}");
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn lines_and_bars_look_different_until_all_looks_are_used() {
        for classes in [line_classes, fill_classes] {
            let looks: BTreeSet<String> = (0..LOOKS).map(classes).collect();
            assert_eq!(looks.len(), LOOKS);
            assert_eq!(classes(LOOKS), classes(0));
            let style = style();
            for class in looks.iter().flat_map(|it| it.split(' ')) {
                assert!(style.contains(&format!(".{class}{{")), "{class}");
            }
        }
    }
}
