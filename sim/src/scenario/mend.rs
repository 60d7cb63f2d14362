// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys without a value, such as `"suspend",`: rt-app's workgen gives them one, and so do we.

/// A text in which every key has a value, and where it was made longer for that.
pub struct Mended {
    pub text: String,
    /// Offsets in the new text, in order, behind which `VALUE` was put in.
    insertions: Vec<usize>,
}

const VALUE: &str = ": \"\"";

impl Mended {
    /// Where in the old text the byte `offset` of the new one was.
    pub fn old_offset(&self, offset: usize) -> usize {
        let before = self.insertions.iter().take_while(|at| **at < offset);
        let end = before.clone().last().map_or(0, |at| at + VALUE.len());
        offset.max(end) - before.count() * VALUE.len()
    }
}

/// Gives every key a value. What is no JSON in other ways stays so, for the parser to say.
pub fn mend(text: &str) -> Mended {
    let mut scanner = Scanner {
        text,
        at: 0,
        in_object: Vec::new(),
        key_comes: false,
    };
    let mut new = String::with_capacity(text.len());
    let mut insertions = Vec::new();
    let mut copied = 0;
    while let Some(end) = scanner.next_key_without_value() {
        new.push_str(&text[copied..end]);
        insertions.push(new.len());
        new.push_str(VALUE);
        copied = end;
    }
    new.push_str(&text[copied..]);
    Mended {
        text: new,
        insertions,
    }
}

/// Just enough of JSON to tell keys from other strings.
struct Scanner<'t> {
    text: &'t str,
    at: usize,
    /// For each bracket that is open: whether it is an object's.
    in_object: Vec<bool>,
    /// The next string is a key.
    key_comes: bool,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Over white space and comments.
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                rest.len() - rest.trim_start().len()
            };
            if length == 0 {
                return;
            }
            self.at += length;
        }
    }

    /// Over a string that begins here.
    fn skip_string(&mut self) {
        let mut escaped = false;
        for (offset, character) in self.rest().char_indices().skip(1) {
            match character {
                '"' if !escaped => {
                    self.at += offset + 1;
                    return;
                }
                character => escaped = character == '\\' && !escaped,
            }
        }
        self.at = self.text.len();
    }

    /// The end of the next key that neither a colon nor the end of the text follows.
    fn next_key_without_value(&mut self) -> Option<usize> {
        loop {
            self.skip_space();
            let character = self.rest().chars().next()?;
            if character == '"' {
                self.skip_string();
                let end = self.at;
                if std::mem::take(&mut self.key_comes) {
                    self.skip_space();
                    if !self.rest().is_empty() && !self.rest().starts_with(':') {
                        self.key_comes = true;
                        return Some(end);
                    }
                } else {
                    self.after_value();
                }
                continue;
            }
            self.at += character.len_utf8();
            self.take(character);
        }
    }

    fn take(&mut self, character: char) {
        match character {
            '{' | '[' => {
                self.in_object.push(character == '{');
                self.key_comes = character == '{';
            }
            '}' | ']' => {
                self.in_object.pop();
                self.after_value();
            }
            ':' => self.key_comes = false,
            // Of a number or a word: the next string in an object is a key, as behind a comma.
            _ => self.after_value(),
        }
    }

    fn after_value(&mut self) {
        self.key_comes = self.in_object.last() == Some(&true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_a_value_get_one() {
        for (old, new) in [
            (r#"{"suspend", "run": 1}"#, r#"{"suspend": "", "run": 1}"#),
            (r#"{"run": 1, "suspend"}"#, r#"{"run": 1, "suspend": ""}"#),
            (
                r#"{"run": 1 "yield" "run": 2}"#,
                r#"{"run": 1 "yield": "" "run": 2}"#,
            ),
            (
                "{\"a\" /* b */, \"c\" // d\n}",
                "{\"a\": \"\" /* b */, \"c\": \"\" // d\n}",
            ),
            (r#"{"a": {"b"}, "c"}"#, r#"{"a": {"b": ""}, "c": ""}"#),
        ] {
            assert_eq!(mend(old).text, new);
        }
    }

    #[test]
    fn all_else_stays() {
        for text in [
            r#"{"a": "b", "c": ["d", "e"], "f": {"g": true}, "h" /* i */ : -1.5e3}"#,
            r#"{"a": "\"b\", {", "\\": "c"}"#,
            "// \"a\"\n{\"b\": 1}",
            r#"["a", {"b": "c"}, "d"]"#,
            "{\"a\"",
            "{\"a",
            "/* \"a\"",
            "]}\"a\"",
            "é\"",
            "",
        ] {
            assert_eq!(mend(text).text, text);
        }
    }

    #[test]
    fn offsets_are_found_again() {
        let old = r#"{"a", "b", "run": 1}"#;
        let mended = mend(old);
        for key in ["\"a\"", "\"b\"", "\"run\"", "1"] {
            let (new_at, old_at) = (mended.text.find(key), old.find(key));
            assert_eq!(new_at.map(|at| mended.old_offset(at)), old_at, "{key}");
        }
        // Inside what was put in: where it was.
        assert_eq!(mended.old_offset(5), 4);
    }
}
