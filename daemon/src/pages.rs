// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists in pages: an answer is one message, so a page is bounded by its bytes, whatever its entries are.

use serde::Serialize;

use crate::wire::ANSWER_BYTES_MAX;

/// For what surrounds the list, and for its commas.
const SPARE_BYTES: usize = 1024;

/// The first of `entries` that fit into one answer, at least one, and whether there are more.
pub(crate) fn first_page<T: Serialize>(entries: impl Iterator<Item = T>) -> (Vec<T>, bool) {
    let mut left = ANSWER_BYTES_MAX - SPARE_BYTES;
    let mut page = Vec::new();
    for entry in entries {
        // What cannot be written is found out again when the answer is.
        let bytes = serde_json::to_vec(&entry).map_or(0, |json| json.len() + 1);
        if bytes > left && !page.is_empty() {
            return (page, true);
        }
        left = left.saturating_sub(bytes);
        page.push(entry);
    }
    (page, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Asked for page by page, every entry comes once, and no page is too long unless it has one entry.
        #[test]
        fn every_entry_is_in_a_page_that_fits(lengths in prop::collection::vec(0usize..40_000, 1..16)) {
            let all: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
            let mut told = 0;
            loop {
                let (page, more) = first_page(all[told..].iter());
                let bytes = serde_json::to_vec(&page).unwrap().len();
                prop_assert!(!page.is_empty() && (page.len() == 1 || bytes <= ANSWER_BYTES_MAX));
                prop_assert_eq!(&page[..], &all[told..told + page.len()].iter().collect::<Vec<_>>()[..]);
                told += page.len();
                prop_assert_eq!(more, told < all.len());
                if !more {
                    break;
                }
            }
        }
    }
}
